"""A classic group with static members, which come back under their instance ids (KIP-345)."""

from __future__ import annotations

from typing import Any

from tests.worlds.group_script import Script
from tidegate_coordination.groups.values import MemberIdentity, Refusal, State


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


def test_a_static_member_that_returns_between_join_and_sync_starts_a_rebalance() -> None:
    script = Script(auto_persist=False)
    leader = script.answers[static(script, "one")].member_id
    old = script.sync(leader, 1, instance_id="one", assignments={leader: b"L"})
    returned = script.answers[static(script, "one")]
    assert script.answers[old].refusal is Refusal.FENCED_INSTANCE
    assert (returned.refusal, returned.generation) == (None, 2)
    script.persisted()  # of the generation before
    assert script.state is State.COMPLETING_REBALANCE


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
