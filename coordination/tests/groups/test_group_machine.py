"""A classic group, by events in and effects out: members join, sync, and rebalance."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from tests.worlds.group_script import NO_DELAY, Script
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.groups.values import (
    JoinAnswer,
    MemberIdentity,
    Refusal,
    State,
    SyncAnswer,
)


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
    script.wait(0.1)  # 7 s: the delay ends
    assert {script.answers[each].generation for each in (first, second, third)} == {1}
    assert len(script.answers[first].members) == 3
    assert script.answers[second].members == ()


def test_lone_member_waits_for_one_delay() -> None:
    script = Script(GroupSettings(initial_rebalance_delay_ms=3000))
    ticket = script.join(requires_known_id=False)
    script.wait(2.9)
    assert not script.answers
    script.wait(0.1)  # the first member does not extend the delay
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


def test_an_assignment_that_is_too_large_is_refused_to_all_parked_syncs() -> None:
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


def test_a_stable_follower_that_joins_again_unchanged_causes_no_rebalance() -> None:
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
