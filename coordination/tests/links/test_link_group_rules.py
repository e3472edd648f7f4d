"""Groups that gateways forward, and how they move here: rules and folds."""

from __future__ import annotations

import pytest

from tests.worlds.mirror_world import MIRRORED, SOURCE, World, topic
from tidegate_coordination.events.cluster import ClaimTaken, Endpoint, GatewayRegistered
from tidegate_coordination.events.groups import GroupChanged, GroupDeleted, MemberRecord
from tidegate_coordination.events.links import ForwardedMember
from tidegate_coordination.events.metadata_versions import LINKS, SWITCHES
from tidegate_coordination.events.restores import TimelineOpened
from tidegate_coordination.rules.consumer_groups.groups import ChangeGroup
from tidegate_coordination.rules.consumer_groups.offsets import (
    CommitOffsets,
    CommitRefusal,
    OffsetToCommit,
)
from tidegate_coordination.rules.migration.group_moves import (
    MAX_MEMBERS,
    MAX_OFFSETS,
    FenceGroups,
    GroupToMove,
    MoveGroups,
    ReachGroupFence,
    UnfenceGroups,
)
from tidegate_coordination.rules.migration.mirrors import (
    LinkRefusal,
    MirrorTopics,
    RemoveLink,
    SetLink,
)
from tidegate_coordination.state.groups import HAS_MEMBERS

MEMBER = MemberRecord("c-1", None, "c", "/h", 300_000, 45_000, (("range", b"p"),), b"a")
SEEN = ForwardedMember("g-1", "c-1", 7, "c-1", 45_000, 300_000)
OFFSET = OffsetToCommit(MIRRORED, 0, 5, 1, "note")


def linked(*groups: str) -> World:
    world = World(SWITCHES)
    link = SetLink("src", SOURCE, "h:1", (".*",), groups=groups or ("g-*", "one"))
    assert world.propose(link) is None
    assert world.propose(MirrorTopics("src", (topic(),))) == []
    return world


def fenced(*groups: str) -> World:
    world = linked()
    assert world.propose(FenceGroups("src", groups or ("g-1",))) == 1
    world.propose(ReachGroupFence(1, (SEEN,)))
    return world


def record(group_id: str = "g-1", *members: MemberRecord, generation: int = 7) -> GroupChanged:
    leader = members[0].member_id if members else None
    return GroupChanged(group_id, 0, "consumer", generation, "range", leader, members)


def move(*members: MemberRecord, offsets: tuple[OffsetToCommit, ...] = (OFFSET,)) -> MoveGroups:
    return MoveGroups(1, (GroupToMove(record("g-1", *members), offsets),))


def link_of(world: World, group_id: str) -> str:
    return world.state.link_groups.link_of(group_id)


def test_a_link_names_groups_or_what_they_begin_with() -> None:
    world = linked()
    assert [link_of(world, each) for each in ("g-1", "g-", "one", "g", "ones", "")] == [
        "src", "src", "src", "", "", "",
    ]  # fmt: skip
    assert link_of(linked("*"), "any") == "src"
    assert link_of(World(SWITCHES).linked(), "any") == ""


def test_groups_are_forwarded_from_the_level_of_switches_on() -> None:
    world = World(LINKS)
    link = SetLink("src", SOURCE, "h:1", (".*",), groups=("g",))
    assert world.propose(link) is LinkRefusal.FORWARDS_NOT_YET
    empty = SetLink("src", SOURCE, "h:1", (".*",), groups=("",))
    assert World(SWITCHES).propose(empty) is LinkRefusal.NO_GROUP


def claim(world: World, group_id: str) -> None:
    world.apply(ClaimTaken(f"group/{group_id}", 1, 1))


def test_no_gateway_writes_a_group_that_is_forwarded() -> None:
    """A gateway may not have read yet that the link exists, or that the group is forwarded."""
    world = linked()
    claim(world, "g-1")
    changed = ChangeGroup(GroupChanged("g-1", 1, "consumer", 1, "range", "c-1", (MEMBER,)))
    assert world.propose(changed) is False
    commit = CommitOffsets("g-1", 1, -1, (OFFSET,))
    assert world.propose(commit) is CommitRefusal.NOT_HOLDER
    assert world.state.groups.get("g-1") is None


def test_a_group_that_was_here_before_is_this_clusters() -> None:
    world = World(SWITCHES).linked()
    claim(world, "g-1")
    assert world.propose(CommitOffsets("g-1", 1, -1, (OFFSET,))) == [True]
    again = SetLink("src", SOURCE, "h:1", (".*",), replaces=True, groups=("g-*",))
    assert world.propose(again) is None
    assert (link_of(world, "g-1"), link_of(world, "g-2")) == ("", "src")
    assert world.propose(CommitOffsets("g-1", 1, -1, (OFFSET,))) == [True]
    assert "not one that gateways forward" in world.propose(FenceGroups("src", ("g-1",)))


def test_a_group_moves_with_its_members_and_offsets() -> None:
    world = fenced()
    assert world.state.link_groups.fences[1].members == [SEEN]
    assert world.propose(move(MEMBER)) == ""
    assert not world.state.link_groups.fences
    assert link_of(world, "g-1") == ""
    group = world.state.groups.get("g-1")
    assert group is not None
    assert (group.generation, group.leader, group.members) == (7, "c-1", (MEMBER,))
    assert group.empty_since_ms == HAS_MEMBERS
    committed = group.offset(MIRRORED, 0)
    assert committed is not None
    assert (committed.offset, committed.leader_epoch, committed.metadata) == (5, 1, "note")


def test_no_gateway_goes_on_with_a_machine_of_before() -> None:
    world = fenced()
    claim(world, "g-1")
    assert world.propose(move(MEMBER)) == ""
    assert world.state.claims.get("group/g-1") == (1, 2)


@pytest.mark.parametrize(
    ("own", "other", "overlaps"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "ab", False),
        ("a*", "a", True),
        ("a*", "ab", True),
        ("ab", "a*", True),
        ("ab*", "a", False),
        ("ab*", "a*", True),
        ("a*", "b*", False),
        ("*", "x", True),
        ("*", "*", True),
    ],
)
def test_no_two_links_name_the_same_groups(own: str, other: str, overlaps: bool) -> None:
    world = linked(own)
    second = SetLink("aaa", "another-cluster-id-000", "h:2", (), groups=(other,))
    assert world.propose(second) is (LinkRefusal.GROUPS_TAKEN if overlaps else None)


def test_a_group_that_moved_is_no_other_links() -> None:
    world = fenced()
    assert world.propose(move(offsets=())) == ""
    world.apply(GroupDeleted("g-1"))
    again = SetLink("src", SOURCE, "h:1", (".*",), replaces=True)
    assert world.propose(again) is None
    second = SetLink("aaa", "another-cluster-id-000", "h:2", (), groups=("*",))
    assert world.propose(second) is None
    assert (link_of(world, "g-1"), link_of(world, "g-2")) == ("", "aaa")


def test_a_moved_group_stays_here_when_it_is_deleted() -> None:
    world = fenced()
    assert world.propose(move(offsets=())) == ""
    assert link_of(world, "g-1") == ""
    again = SetLink("src", SOURCE, "h:1", (".*",), replaces=True, groups=("g-*",))
    assert world.propose(again) is None
    assert link_of(world, "g-1") == ""


def test_a_fence_waits_for_all_gateways_that_live() -> None:
    world = linked()
    endpoint = (Endpoint("PLAINTEXT", "h", 1),)
    world.apply(GatewayRegistered(2, 2, "key2", "az1", endpoint, "0", 0), writer=0)
    assert world.propose(FenceGroups("src", ("g-1",))) == 1
    world.propose(ReachGroupFence(1, ()))
    assert world.propose(move()) == "gateway 2 did not answer"
    assert world.state.groups.get("g-1") is None


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ((), "name each group once"),
        (("g-1", "g-1"), "name each group once"),
        (("other",), "group other is not one"),
    ],
)
def test_a_fence_that_makes_no_sense(groups: tuple[str, ...], reason: str) -> None:
    assert reason in linked().propose(FenceGroups("src", groups))


def test_a_group_is_moved_once_at_a_time() -> None:
    world = fenced()
    assert "being moved already" in world.propose(FenceGroups("src", ("g-2", "g-1")))


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (MoveGroups(2, ()), "the fence was lifted"),
        (MoveGroups(1, (GroupToMove(record("g-2"), ()),)), "not the groups of the fence"),
        (move(offsets=(OffsetToCommit(MIRRORED, 2, 1, -1, ""),)), "a topic is gone"),
        (move(offsets=(OFFSET,) * (MAX_OFFSETS + 1)), "up to 10000"),
    ],
)
def test_a_move_that_makes_no_sense(proposal: MoveGroups, reason: str) -> None:
    world = fenced()
    assert reason in world.propose(proposal)
    assert link_of(world, "g-1") == "src"


def test_a_fence_that_is_lifted_leaves_the_group_there() -> None:
    world = fenced()
    assert world.propose(UnfenceGroups(1, "too slow")) is True
    assert world.propose(UnfenceGroups(1, "too slow")) is False
    assert (link_of(world, "g-1"), world.propose(move())) == ("src", "the fence was lifted")
    assert world.propose(FenceGroups("src", ("g-1",))) == 2


def test_a_gateway_tells_a_bounded_number_of_members() -> None:
    world = linked()
    assert world.propose(FenceGroups("src", ("g-1",))) == 1
    world.propose(ReachGroupFence(1, (SEEN,) * (MAX_MEMBERS + 1)))
    assert len(world.state.link_groups.fences[1].members) == MAX_MEMBERS


def test_a_restore_lifts_fences_and_a_removed_link_forgets_its_groups() -> None:
    world = fenced()
    world.apply(TimelineOpened(1, 5, 0, "r"), writer=0)
    assert not world.state.link_groups.fences
    assert "the log was restored" in str(FenceGroups("src", ("g-1",)).decide(world.view()).answer)
    other = fenced()
    assert other.propose(move()) == ""
    assert other.propose(FenceGroups("src", ("g-2",))) == 2
    assert other.propose(RemoveLink("src", deletes_topics=True)) is LinkRefusal.MOVING
    again = SetLink("src", SOURCE, "h:1", (".*",), replaces=True, groups=("g-*",))
    assert other.propose(again) is LinkRefusal.MOVING
    assert other.propose(UnfenceGroups(2, "")) is True
    assert other.propose(RemoveLink("src", deletes_topics=True)) == ["m"]
    assert not other.state.link_groups.moved
