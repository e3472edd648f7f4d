"""The state that a forwarded group has when it moves, and the members that a gateway has seen."""

from __future__ import annotations

from tidegate_coordination.events.groups import MemberRecord
from tidegate_coordination.events.links import ForwardedMember
from tidegate_gateway.migration.units.forwarded_members import (
    KEPT_SECONDS,
    MAX_MEMBERS,
    UNKNOWN_MS,
    ForwardedMembers,
)
from tidegate_gateway.migration.units.group_plan import GroupPlan, planned, unrest_of
from tidegate_protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

TIMEOUTS = (45_000, 300_000)


def seen(member_id: str, generation: int = 3, leader: str = "a") -> ForwardedMember:
    return ForwardedMember("g", member_id, generation, leader, *TIMEOUTS)


def member(member_id: str) -> DescribedGroupMember:
    return DescribedGroupMember(member_id, None, "client", "/h", b"topics", b"assigned")


def described(*members: str, state: str = "Stable") -> DescribedGroup:
    found = [member(each) for each in members]
    return DescribedGroup(0, None, "g", state, "consumer", "range", found)


def record(*names: str) -> tuple[MemberRecord, ...]:
    own = (300_000, 45_000, (("range", b"topics"),), b"assigned")
    return tuple(MemberRecord(each, None, "client", "/h", *own) for each in names)


def plan(group: DescribedGroup, *members: ForwardedMember) -> GroupPlan:
    found = planned(group, members)
    assert isinstance(found, GroupPlan), found
    return found


# -- the plan --------------------------------------------------------------------------------------


def test_members_go_on_in_their_generation() -> None:
    found = plan(described("a", "b"), seen("a"), seen("b"))
    assert (found.record.generation, found.record.leader, found.record.protocol) == (
        3,
        "a",
        "range",
    )
    assert found.record.members == record("a", "b")
    assert not found.joins_again


def test_a_group_without_members_has_offsets_only() -> None:
    found = plan(described(state="Empty"))
    assert (found.record.generation, found.record.members, found.joins_again) == (0, (), False)


def test_a_member_that_no_gateway_knows_talks_to_the_source() -> None:
    text = planned(described("a", "b"), [seen("a")])
    assert "1 of its members do not come through gateways, such as client client at /h" in str(text)


def test_a_group_that_rebalances_is_left_alone() -> None:
    group = described("a", state="PreparingRebalance")
    assert "PreparingRebalance at the source: try again" in str(planned(group, [seen("a")]))
    assert unrest_of(described(state="Dead")) == "the source shows no such group"


def test_members_join_again_if_a_gateway_saw_only_a_part() -> None:
    heard = ForwardedMember("g", "b", 3, "", UNKNOWN_MS, UNKNOWN_MS)
    for others in ([heard], [seen("b", generation=2)]):
        found = plan(described("a", "b"), seen("a"), *others)
        assert (found.record.members, found.joins_again) == ((), True)
        assert found.record.generation == 3  # the generation does not fall
    unled = plan(described("a"), seen("a", leader=""))
    assert unled.joins_again
    assert plan(described("a"), seen("a", leader="z"), seen("z")).joins_again  # the leader left


def test_the_gateway_that_saw_a_member_last_knows_it_best() -> None:
    """The member joined at one gateway, and sends its heartbeats to another one."""
    heard = ForwardedMember("g", "a", 3, "", UNKNOWN_MS, UNKNOWN_MS)
    assert plan(described("a"), heard, seen("a")).record.members == record("a")
    assert plan(described("a"), seen("a"), heard).record.members == record("a")
    older = seen("a", generation=2)
    assert plan(described("a"), seen("a"), older).record.generation == 3


# -- the members that a gateway saw ----------------------------------------------------------------


def test_a_member_is_known_by_its_join() -> None:
    members = ForwardedMembers()
    members.note_join("g", "a", 3, "a", TIMEOUTS, 0.0)
    members.note_join("other", "a", 9, "a", TIMEOUTS, 0.0)
    members.note("g", "a", 3, 100.0)
    assert list(members.of({"g"}, 100.0)) == [seen("a")]


def test_a_later_generation_has_perhaps_another_leader() -> None:
    members = ForwardedMembers()
    members.note_join("g", "a", 3, "a", TIMEOUTS, 0.0)
    members.note("g", "a", 4, 1.0)
    assert list(members.of({"g"}, 1.0)) == [seen("a", 4, "")]


def test_a_member_that_joined_elsewhere_is_known_by_name() -> None:
    members = ForwardedMembers()
    members.note("g", "a", 3, 0.0)
    assert list(members.of({"g"}, 0.0)) == [
        ForwardedMember("g", "a", 3, "", UNKNOWN_MS, UNKNOWN_MS)
    ]


def test_members_that_left_or_are_silent_are_forgotten() -> None:
    members = ForwardedMembers()
    for each in ("a", "b"):
        members.note("g", each, 3, 0.0)
    members.forget("g", "a")
    members.forget("g", "never")
    assert [each.member_id for each in members.of({"g"}, KEPT_SECONDS - 1)] == ["b"]
    assert list(members.of({"g"}, KEPT_SECONDS)) == []


def test_members_are_bounded() -> None:
    members = ForwardedMembers()
    for number in range(MAX_MEMBERS + 1):
        members.note("g", f"m{number}", 1, float(number > 10))
    kept = {each.member_id for each in members.of({"g"}, 1.0)}
    assert len(kept) <= MAX_MEMBERS
    assert f"m{MAX_MEMBERS}" in kept
