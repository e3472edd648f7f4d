"""A classic group, by events in and effects out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from tidegate_coordination.group_events import GroupChanged
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.joining import join
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.syncing import sync
from tidegate_coordination.groups.values import (
    Answer,
    JoinAnswer,
    JoinRequest,
    MemberIdentity,
    Persist,
    Refusal,
    State,
    SyncAnswer,
    SyncRequest,
)

NO_DELAY = GroupSettings(initial_rebalance_delay_ms=0)


@dataclass
class Script:
    """A group under test, its clock, and what came out of it."""

    settings: GroupSettings = NO_DELAY
    now: float = 100.0
    next_ticket: int = 0
    answers: dict[int, Any] = field(default_factory=dict)
    records: list[GroupChanged] = field(default_factory=list)
    auto_persist: bool = True

    def __post_init__(self) -> None:
        self.group = ClassicGroup("g", 7, self.settings)

    @property
    def state(self) -> State:
        return self.group.state

    def join(self, member_id: str = "", **changes: Any) -> int:
        """Return the ticket."""
        self.next_ticket += 1
        join(self.group, request(member_id, **changes), ticket=self.next_ticket, now=self.now)
        self.collect()
        return self.next_ticket

    def sync(self, member_id: str, generation: int = 1, **changes: Any) -> int:
        """Return the ticket; assignments: a dict, from the leader."""
        self.next_ticket += 1
        assignments = tuple(changes.pop("assignments", {}).items())
        fields = {"instance_id": None, "protocol_type": None, "protocol": None} | changes
        wanted = SyncRequest(
            member_id=member_id, generation=generation, assignments=assignments, **fields
        )
        sync(self.group, wanted, ticket=self.next_ticket, now=self.now)
        self.collect()
        return self.next_ticket

    def heartbeat(
        self, member_id: str, generation: int = 1, instance: str | None = None
    ) -> Refusal | None:
        return self.group.heartbeat(MemberIdentity(member_id, instance), generation, self.now)

    def leave(self, *members: MemberIdentity) -> list[Refusal | None]:
        answers = self.group.leave(members, self.now)
        self.collect()
        return answers

    def wait(self, seconds: float) -> None:
        """Let time pass; the timers that fall due are met in order."""
        until = self.now + seconds
        while self.group.next_deadline() <= until:
            self.now = max(self.now, self.group.next_deadline())
            self.group.tick(self.now)
            self.collect()
        self.now = until

    def collect(self) -> None:
        for effect in self.group.take_effects():
            if isinstance(effect, Answer):
                assert effect.ticket not in self.answers
                self.answers[effect.ticket] = effect.value
            else:
                assert isinstance(effect, Persist)
                self.records.append(effect.record)
                if self.auto_persist:
                    self.group.persisted(self.now)
                    self.collect()

    def persisted(self) -> None:
        self.group.persisted(self.now)
        self.collect()

    def stable(self, *names: str, **changes: Any) -> list[str]:
        """Bring dynamic members into a stable group; return their ids, the leader first."""
        tickets = [self.join(requires_known_id=False, fresh_id=each, **changes) for each in names]
        if self.settings.initial_rebalance_delay_ms:
            self.wait(self.settings.initial_delay_seconds * (len(names) + 1))
        for number, name in enumerate(names[:-1]):  # the last to come rebalanced the others
            if tickets[number] in self.answers:
                tickets[number] = self.join(f"client-{name}", fresh_id=name, **changes)
        answers = [self.answers[each] for each in tickets]
        assert all(each.refusal is None for each in answers), answers
        ids = [each.member_id for each in answers]
        leader = answers[0].leader
        assignments = {each: f"part of {each}".encode() for each in ids}
        for each in ids:
            mine = assignments if each == leader else {}
            self.sync(each, self.group.generation, assignments=mine)
        assert self.group.state is State.STABLE
        return sorted(ids, key=lambda each: each != leader)


def request(member_id: str = "", **changes: Any) -> JoinRequest:
    base = JoinRequest(
        member_id=member_id,
        instance_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(("range", b"topics"), ("sticky", b"topics")),
        fresh_id="fresh",
    )
    return replace(base, **changes)


def test_dynamic_member_must_come_back_with_the_id_it_is_given() -> None:
    script = Script()
    first = script.answers[script.join()]
    assert (first.refusal, first.member_id) == (Refusal.MEMBER_ID_REQUIRED, "client-fresh")
    assert script.group.describe().state is State.EMPTY
    second = script.answers[script.join(first.member_id)]
    assert second == JoinAnswer(
        None,
        "client-fresh",
        1,
        "consumer",
        "range",
        "client-fresh",
        False,
        script.group.roster.joined_members("range"),
    )
    assert script.state is State.COMPLETING_REBALANCE


def test_id_that_is_not_used_within_the_session_lapses() -> None:
    script = Script()
    script.join()
    script.wait(10.1)
    assert script.group.is_idle
    assert script.group.next_deadline() == inf
    answer = script.answers[script.join("client-fresh")]
    assert answer.refusal is Refusal.UNKNOWN_MEMBER


def test_given_id_holds_up_a_rebalance_until_it_lapses() -> None:
    script = Script()
    [leader] = script.stable("a")
    script.join(fresh_id="b")
    ticket = script.join(leader)
    assert ticket not in script.answers
    script.wait(10.0)
    assert script.answers[ticket].generation == 2


def test_leaving_with_a_given_id_ends_it() -> None:
    script = Script()
    script.join()
    assert script.leave(MemberIdentity("client-fresh")) == [None]
    assert script.group.is_idle


def test_given_ids_are_bounded() -> None:
    script = Script(replace(NO_DELAY, max_pending_members=2))
    refusals = [script.answers[script.join(fresh_id=each)].refusal for each in "abc"]
    assert refusals == [Refusal.MEMBER_ID_REQUIRED] * 2 + [Refusal.UNAVAILABLE]


def test_first_rebalance_waits_for_more_members_up_to_the_rebalance_timeout() -> None:
    script = Script(GroupSettings(initial_rebalance_delay_ms=3000))
    first = script.join(requires_known_id=False, fresh_id="a", rebalance_timeout_ms=7000)
    script.wait(2.0)
    second = script.join(requires_known_id=False, fresh_id="b", rebalance_timeout_ms=7000)
    script.wait(3.0)  # extended at 3 s
    third = script.join(requires_known_id=False, fresh_id="c", rebalance_timeout_ms=7000)
    assert not script.answers
    script.wait(1.9)
    assert not script.answers
    script.wait(0.1)  # 7 s: no longer
    assert {script.answers[each].generation for each in (first, second, third)} == {1}
    assert len(script.answers[first].members) == 3
    assert script.answers[second].members == ()


def test_lone_member_waits_for_one_delay() -> None:
    script = Script(GroupSettings(initial_rebalance_delay_ms=3000))
    ticket = script.join(requires_known_id=False)
    script.wait(2.9)
    assert not script.answers
    script.wait(0.1)  # it grew by its first member, which extends nothing
    assert ticket in script.answers


def test_assignment_is_durable_before_any_sync_is_answered() -> None:
    script = Script(auto_persist=False)
    leader = script.answers[script.join(requires_known_id=False, fresh_id="a")].member_id
    follower_join = script.join(requires_known_id=False, fresh_id="b")
    script.join(leader)
    follower = script.answers[follower_join].member_id
    waits = script.sync(follower, 2)
    leads = script.sync(leader, 2, assignments={leader: b"L", follower: b"F"})
    assert waits not in script.answers
    assert leads not in script.answers
    [record] = script.records
    assert record.generation == 2
    assert [(each.member_id, each.assignment) for each in record.members] == [
        (leader, b"L"),
        (follower, b"F"),
    ]
    script.persisted()
    assert script.answers[waits] == SyncAnswer(None, "consumer", "range", b"F")
    assert script.answers[leads] == SyncAnswer(None, "consumer", "range", b"L")
    late = script.sync(follower, 2)
    assert script.answers[late].assignment == b"F"


def test_assignment_that_was_overtaken_by_a_join_is_not_handed_out() -> None:
    script = Script(auto_persist=False)
    leader = script.answers[script.join(requires_known_id=False, fresh_id="a")].member_id
    leads = script.sync(leader, 1, assignments={leader: b"L"})
    script.join(requires_known_id=False, fresh_id="b")
    assert script.answers[leads].refusal is Refusal.REBALANCE_IN_PROGRESS
    script.persisted()
    assert script.state is State.PREPARING_REBALANCE
    assert script.answers[leads].assignment == b""


def test_leader_that_syncs_twice_is_answered_on_the_later_request() -> None:
    script = Script(auto_persist=False)
    leader = script.answers[script.join(requires_known_id=False)].member_id
    first = script.sync(leader, 1, assignments={leader: b"L"})
    second = script.sync(leader, 1, assignments={leader: b"other"})
    script.persisted()
    assert script.answers[first].refusal is Refusal.REBALANCE_IN_PROGRESS
    assert script.answers[second].assignment == b"L"
    assert len(script.records) == 1


def test_assignment_that_is_too_large_is_refused_to_all_who_wait() -> None:
    script = Script(replace(NO_DELAY, max_assignment_bytes=10))
    leader = script.answers[script.join(requires_known_id=False)].member_id
    ticket = script.sync(leader, 1, assignments={leader: b"x" * 11})
    assert script.answers[ticket].refusal is Refusal.ASSIGNMENT_TOO_LARGE
    assert script.state is State.PREPARING_REBALANCE
    assert script.records == []


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"generation": 5}, Refusal.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, Refusal.UNKNOWN_MEMBER),
        ({"protocol_type": "connect"}, Refusal.INCONSISTENT_PROTOCOL),
        ({"protocol": "sticky"}, Refusal.INCONSISTENT_PROTOCOL),
        ({"instance_id": "nobody"}, Refusal.UNKNOWN_MEMBER),
        ({"protocol_type": "consumer", "protocol": "range"}, None),
    ],
)
def test_sync_is_checked(changes: dict[str, Any], refusal: Refusal | None) -> None:
    script = Script()
    [leader] = script.stable("a")
    ticket = script.sync(**({"member_id": leader} | changes))
    assert script.answers[ticket].refusal is refusal


def test_stable_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    script = Script()
    _, follower = script.stable("a", "b")
    generation = script.group.generation
    answer = script.answers[script.join(follower)]
    assert (answer.refusal, answer.generation) == (None, generation)
    assert answer.members == ()
    assert script.state is State.STABLE


def test_leader_that_joins_again_begins_a_rebalance() -> None:
    script = Script()
    leader, follower = script.stable("a", "b")
    ticket = script.join(leader)
    assert ticket not in script.answers
    assert script.heartbeat(follower, 2) is Refusal.REBALANCE_IN_PROGRESS
    script.join(follower)
    assert script.answers[ticket].generation == 3


def test_changed_metadata_begins_a_rebalance() -> None:
    script = Script()
    leader, follower = script.stable("a", "b")
    ticket = script.join(follower, protocols=(("range", b"other topics"),))
    assert ticket not in script.answers
    answer = script.answers[script.join(leader)]
    assert [each.metadata for each in answer.members] == [b"topics", b"other topics"]


def test_join_while_the_sync_is_awaited_repeats_the_answer() -> None:
    script = Script()
    leader = script.answers[script.join(requires_known_id=False)].member_id
    again = script.answers[script.join(leader)]
    assert (again.generation, len(again.members)) == (1, 1)
    assert script.state is State.COMPLETING_REBALANCE


def test_parked_join_that_is_repeated_is_answered_too() -> None:
    script = Script()
    leader, _ = script.stable("a", "b")
    first = script.join(leader)
    second = script.join(leader)
    assert script.answers[first].refusal is Refusal.REBALANCE_IN_PROGRESS
    assert second not in script.answers


def test_late_members_are_removed_after_the_longest_rebalance_timeout() -> None:
    script = Script()
    leader, follower = script.stable("a", "b", session_timeout_ms=100_000)
    ticket = script.join(leader, session_timeout_ms=100_000)
    script.wait(59.9)
    assert ticket not in script.answers
    script.wait(0.2)
    assert [each.member_id for each in script.answers[ticket].members] == [leader]
    assert script.heartbeat(follower, 3) is Refusal.UNKNOWN_MEMBER


def test_leader_that_does_not_come_back_is_replaced() -> None:
    script = Script()
    leader, follower = script.stable("a", "b", session_timeout_ms=100_000)
    changed = (("range", b"changed"),)
    ticket = script.join(follower, protocols=changed, session_timeout_ms=100_000)
    script.wait(60.0)
    assert script.answers[ticket].leader == follower
    assert script.heartbeat(leader, 3) is Refusal.UNKNOWN_MEMBER


def test_member_without_heartbeats_expires_and_the_others_rebalance() -> None:
    script = Script()
    leader, follower = script.stable("a", "b")
    script.wait(9.0)
    assert script.heartbeat(leader, 2) is None
    script.wait(1.5)
    assert script.heartbeat(follower, 2) is Refusal.UNKNOWN_MEMBER
    assert script.heartbeat(leader, 2) is Refusal.REBALANCE_IN_PROGRESS
    assert script.answers[script.join(leader)].generation == 3


def test_last_member_to_expire_leaves_a_durable_empty_group() -> None:
    script = Script()
    script.stable("a")
    script.wait(10.0)
    assert script.state is State.EMPTY
    last = script.records[-1]
    assert (last.generation, last.members, last.leader, last.protocol) == (2, (), None, None)
    assert last.protocol_type == "consumer"
    assert script.group.is_idle


def test_waiting_for_the_others_counts_as_alive() -> None:
    script = Script()
    leader, _ = script.stable("a", "b", session_timeout_ms=10_000)
    ticket = script.join(leader)
    script.wait(15.0)  # the follower expires after 10 s
    assert script.answers[ticket].generation == 3
    assert script.heartbeat(leader, 3) is None


def test_new_member_whose_join_stays_parked_is_dropped_in_the_end() -> None:
    script = Script()
    patient: dict[str, Any] = {"rebalance_timeout_ms": 1_000_000, "session_timeout_ms": 1_000_000}
    [leader] = script.stable("a", **patient)
    ticket = script.join(requires_known_id=False, fresh_id="b", **patient)
    script.wait(300.0)
    assert script.answers[ticket] == JoinAnswer(Refusal.UNKNOWN_MEMBER, "")
    assert script.heartbeat(leader, 1) is Refusal.REBALANCE_IN_PROGRESS


def test_members_that_do_not_sync_are_removed() -> None:
    script = Script()
    leader, follower = script.stable("a", "b", session_timeout_ms=100_000)
    script.join(leader, session_timeout_ms=100_000)
    script.join(follower, session_timeout_ms=100_000)
    waits = script.sync(follower, 3)
    script.wait(60.0)
    assert script.answers[waits].refusal is Refusal.REBALANCE_IN_PROGRESS
    assert list(script.group.roster.members) == [follower]
    assert script.group.roster.leader == follower
    assert script.state is State.PREPARING_REBALANCE


def test_protocol_that_most_members_prefer_wins() -> None:
    script = Script()
    range_first = (("range", b""), ("sticky", b""))
    sticky_first = (("sticky", b""), ("range", b""), ("mine", b""))
    first = script.answers[
        script.join(requires_known_id=False, fresh_id="a", protocols=range_first)
    ].member_id
    for name in "bc":
        script.join(requires_known_id=False, fresh_id=name, protocols=sticky_first)
    answer = script.answers[script.join(first, protocols=range_first)]
    assert answer.protocol == "sticky"


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol_type": "connect"},
        {"protocols": (("other", b""),)},
        {"protocols": ()},
        {"protocol_type": ""},
    ],
)
def test_member_that_does_not_suit_the_group_is_refused(changes: dict[str, Any]) -> None:
    script = Script()
    script.stable("a")
    ticket = script.join(**changes)
    assert script.answers[ticket].refusal is Refusal.INCONSISTENT_PROTOCOL
    assert script.state is State.STABLE


@pytest.mark.parametrize("changes", [{"protocols": ()}, {"protocol_type": ""}])
def test_empty_group_wants_a_type_and_a_protocol(changes: dict[str, Any]) -> None:
    script = Script()
    assert script.answers[script.join(**changes)].refusal is Refusal.INCONSISTENT_PROTOCOL


def test_empty_group_takes_another_type() -> None:
    script = Script()
    script.stable("a")
    script.wait(20.0)
    ticket = script.join(requires_known_id=False, protocol_type="sr", protocols=(("v0", b"x"),))
    assert script.answers[ticket].protocol_type == "sr"


@pytest.mark.parametrize("timeout", [5999, 1_800_001])
def test_session_timeout_has_limits(timeout: int) -> None:
    script = Script()
    ticket = script.join(session_timeout_ms=timeout)
    assert script.answers[ticket].refusal is Refusal.INVALID_SESSION_TIMEOUT


def test_full_group_takes_nobody_else() -> None:
    script = Script(replace(NO_DELAY, max_size=2))
    leader, follower = script.stable("a", "b")
    assert script.answers[script.join(fresh_id="c")].refusal is Refusal.GROUP_FULL
    script.join(leader)
    assert script.answers[script.join(follower)].refusal is None


def test_group_with_too_much_metadata_takes_no_more() -> None:
    script = Script(replace(NO_DELAY, max_join_bytes=1000))
    big = (("range", b"x" * 600),)
    first = script.answers[script.join(requires_known_id=False, protocols=big)].member_id
    assert script.answers[script.join(fresh_id="b", protocols=big)].refusal is Refusal.GROUP_FULL
    assert script.answers[script.join(first, protocols=big)].refusal is None


def test_leaving_rebalances_the_others_and_names_each_error() -> None:
    script = Script()
    leader, follower = script.stable("a", "b")
    answers = script.leave(
        MemberIdentity(follower), MemberIdentity("stranger"), MemberIdentity("", "nobody")
    )
    assert answers == [None, Refusal.UNKNOWN_MEMBER, Refusal.UNKNOWN_MEMBER]
    assert script.heartbeat(leader, 2) is Refusal.REBALANCE_IN_PROGRESS
    assert script.leave(MemberIdentity(leader)) == [None]
    assert script.state is State.EMPTY


def test_heartbeats_are_checked() -> None:
    script = Script()
    [leader] = script.stable("a")
    assert script.heartbeat(leader, 1) is None
    assert script.heartbeat(leader, 2) is Refusal.ILLEGAL_GENERATION
    assert script.heartbeat("stranger", 1) is Refusal.UNKNOWN_MEMBER


def static(script: Script, instance: str, **changes: Any) -> int:
    fields = {"instance_id": instance, "fresh_id": f"{script.next_ticket}"} | changes
    return script.join(**fields)


def stable_static(script: Script, **changes: Any) -> tuple[str, str]:
    """Return the ids of a leader "one" and a follower "two"."""
    leader = script.answers[static(script, "one", **changes)].member_id
    joined = static(script, "two", **changes)
    script.join(leader, instance_id="one", **changes)
    follower = script.answers[joined].member_id
    script.sync(follower, 2, instance_id="two")
    script.sync(leader, 2, instance_id="one", assignments={leader: b"L", follower: b"F"})
    assert script.state is State.STABLE
    return leader, follower


def test_static_member_needs_no_second_join_and_its_id_bears_its_name() -> None:
    script = Script()
    answer = script.answers[static(script, "one")]
    assert (answer.refusal, answer.member_id) == (None, "one-0")


def test_static_member_returns_without_a_rebalance() -> None:
    script = Script(auto_persist=True)
    leader, follower = stable_static(script)
    script.auto_persist = False
    ticket = static(script, "two")
    assert ticket not in script.answers
    assert script.records[-1].members[1].member_id != follower
    assert script.records[-1].members[1].assignment == b"F"
    script.persisted()
    answer = script.answers[ticket]
    assert (answer.refusal, answer.generation, answer.skip_assignment) == (None, 2, False)
    assert script.heartbeat(leader, 2, "one") is None
    assert script.heartbeat(follower, 2, "two") is Refusal.FENCED_INSTANCE
    assert script.heartbeat(follower, 2) is Refusal.UNKNOWN_MEMBER
    resumed = script.answers[script.sync(answer.member_id, 2, instance_id="two")]
    assert resumed.assignment == b"F"


def test_static_leader_returns_and_skips_the_assignment() -> None:
    script = Script()
    stable_static(script)
    answer = script.answers[static(script, "one")]
    assert answer.leader == answer.member_id
    assert answer.skip_assignment
    assert len(answer.members) == 2


def test_static_leader_of_an_older_client_returns_as_a_follower() -> None:
    script = Script()
    leader, _ = stable_static(script)
    answer = script.answers[static(script, "one", can_skip_assignment=False)]
    assert answer.leader == leader
    assert (answer.skip_assignment, answer.members) == (False, ())
    assert script.group.roster.leader == answer.member_id


def test_static_member_that_returns_twice_at_once_is_answered_for_its_last_id() -> None:
    script = Script()
    stable_static(script)
    script.auto_persist = False
    first = static(script, "two")
    second = static(script, "two")
    assert script.answers[first].refusal is Refusal.FENCED_INSTANCE
    script.persisted()
    assert second not in script.answers
    script.persisted()
    assert script.answers[second].member_id == script.records[-1].members[1].member_id


def test_static_member_that_returns_with_another_protocol_begins_a_rebalance() -> None:
    script = Script()
    stable_static(script)
    ticket = static(script, "two", protocols=(("sticky", b"topics"),))
    assert ticket not in script.answers
    assert script.state is State.PREPARING_REBALANCE


def test_static_member_that_returns_during_a_rebalance_takes_part_in_it() -> None:
    script = Script()
    leader, _ = stable_static(script)
    ticket = script.join(leader, instance_id="one")
    returned = static(script, "two")
    assert script.answers[ticket].generation == script.answers[returned].generation == 3


def test_static_member_that_returns_between_join_and_sync_rebalances_anew() -> None:
    script = Script()
    leader = script.answers[static(script, "one")].member_id
    old = script.sync(leader, 1, instance_id="one")  # syncs with no assignment yet known
    returned = script.answers[static(script, "one")]
    assert script.answers[old].refusal in (None, Refusal.FENCED_INSTANCE)
    assert returned.refusal is None


def test_absent_static_member_keeps_its_place_through_a_rebalance() -> None:
    script = Script()
    patient: dict[str, Any] = {"session_timeout_ms": 200_000}
    leader, follower = stable_static(script, **patient)
    ticket = script.join(leader, instance_id="one", **patient)
    script.wait(60.0)
    assert [each.member_id for each in script.answers[ticket].members] == [leader, follower]


def test_when_no_static_member_comes_back_their_sessions_decide() -> None:
    script = Script()
    _, follower = stable_static(script, session_timeout_ms=90_000)
    script.leave(MemberIdentity(follower, "two"))
    assert script.state is State.PREPARING_REBALANCE
    script.wait(60.0)
    assert script.state is State.PREPARING_REBALANCE
    script.wait(30.0)
    assert script.group.describe().state is State.EMPTY


def test_administrator_removes_a_static_member_by_name() -> None:
    script = Script()
    stable_static(script)
    assert script.leave(MemberIdentity("", "two")) == [None]
    assert script.state is State.PREPARING_REBALANCE


def test_leave_of_a_fenced_id_is_refused() -> None:
    script = Script()
    _, follower = stable_static(script)
    static(script, "two")
    assert script.leave(MemberIdentity(follower, "two")) == [Refusal.FENCED_INSTANCE]


def test_restored_group_goes_on_as_if_nothing_happened() -> None:
    script = Script()
    leader, follower = script.stable("a", "b")
    script.group = ClassicGroup.restore(
        script.records[-1], claim_epoch=8, settings=NO_DELAY, now=script.now
    )
    assert script.heartbeat(follower, 2) is None
    assert script.group.check_commit(MemberIdentity(leader), 2, script.now) is None
    assert script.answers[script.sync(follower, 2)].assignment == b"part of client-b"
    assert script.answers[script.join(follower)].generation == 2
    script.wait(9.9)
    assert script.heartbeat(leader, 2) is None
    script.wait(0.2)
    assert script.heartbeat(follower, 2) is Refusal.UNKNOWN_MEMBER
    assert script.answers[script.join(leader)].generation == 3


@pytest.mark.parametrize("generation", [-1, 0, 3])
def test_commit_to_an_empty_group(generation: int) -> None:
    script = Script()
    refusal = script.group.check_commit(MemberIdentity(""), generation, script.now)
    assert refusal is (None if generation < 0 else Refusal.UNKNOWN_MEMBER)


def test_commits_are_checked() -> None:
    script = Script()
    leader = script.answers[script.join(requires_known_id=False)].member_id

    def commit(member_id: str, generation: int) -> Refusal | None:
        return script.group.check_commit(MemberIdentity(member_id), generation, script.now)

    assert commit(leader, 1) is Refusal.REBALANCE_IN_PROGRESS
    script.sync(leader, 1, assignments={})
    assert commit(leader, 1) is None
    assert commit(leader, 0) is Refusal.ILLEGAL_GENERATION
    assert commit("stranger", 1) is Refusal.UNKNOWN_MEMBER
    assert commit("", -1) is Refusal.UNKNOWN_MEMBER
    script.join(requires_known_id=False, fresh_id="b")
    assert commit(leader, 1) is None  # before it joins again


def test_commit_is_a_sign_of_life() -> None:
    script = Script()
    [leader] = script.stable("a")
    script.wait(9.0)
    script.group.check_commit(MemberIdentity(leader), 1, script.now)
    script.wait(9.0)
    assert script.heartbeat(leader, 1) is None


def test_abandoned_group_answers_all_who_wait() -> None:
    script = Script()
    leader, follower = script.stable("a", "b")
    ticket = script.join(leader)
    script.group.abandon(Refusal.NOT_COORDINATOR)
    script.collect()
    assert script.answers[ticket].refusal is Refusal.NOT_COORDINATOR
    assert script.heartbeat(follower, 2) is Refusal.UNAVAILABLE
    assert script.group.next_deadline() > script.now


def test_stall_expires_nobody() -> None:
    script = Script()
    leader, follower = script.stable("a", "b")
    script.now += 1000
    script.group.restart_timers(script.now)
    script.wait(9.0)
    assert script.heartbeat(leader, 2) is None
    assert script.heartbeat(follower, 2) is None


def test_description_shows_metadata_and_assignment_when_stable() -> None:
    script = Script()
    [leader] = script.stable("a")
    seen = script.group.describe()
    assert (seen.state, seen.protocol_type, seen.protocol) == (State.STABLE, "consumer", "range")
    assert [(each.member_id, each.metadata, each.assignment) for each in seen.members] == [
        (leader, b"topics", b"part of client-a")
    ]
    script.join(requires_known_id=False, fresh_id="b")
    seen = script.group.describe()
    assert (seen.state, seen.protocol) == (State.PREPARING_REBALANCE, "")
    assert {each.metadata for each in seen.members} == {b""}


def test_static_member_that_returns_before_it_synced_is_not_missed_by_its_old_id() -> None:
    script = Script()
    patient: dict[str, Any] = {"session_timeout_ms": 200_000}
    leader = script.answers[static(script, "one", **patient)].member_id
    static(script, "two", **patient)
    script.join(leader, instance_id="one", **patient)
    script.sync(leader, 2, instance_id="one", assignments={leader: b"L"})
    assert script.state is State.STABLE
    returned = script.answers[static(script, "two", **patient)]
    script.wait(61.0)
    assert script.heartbeat(returned.member_id, 2, "two") is None
