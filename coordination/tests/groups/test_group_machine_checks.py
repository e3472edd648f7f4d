"""A classic group: members that it accepts, requests that it refuses, and its states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.group_script import NO_DELAY, Script
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.values import MemberIdentity, Refusal, State


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


def test_a_full_group_accepts_no_new_member() -> None:
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


def test_an_abandoned_group_answers_all_parked_requests() -> None:
    script = Script()
    leader, follower = script.stable("a", "b")
    ticket = script.join(leader)
    script.group.abandon(Refusal.NOT_COORDINATOR)
    script.collect()
    assert script.answers[ticket].refusal is Refusal.NOT_COORDINATOR
    assert script.heartbeat(follower, 2) is Refusal.UNAVAILABLE
    assert script.group.next_deadline() > script.now


def test_a_stall_expires_no_member() -> None:
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
