"""Offsets that are committed in transactions (KIP-98, KIP-447)."""

from __future__ import annotations

import pytest

from tests.worlds.transaction_world import GROUP, TOPIC, TransactionWorld
from tidegate_coordination.rules.consumer_groups.groups import DeleteGroup, Deletion, ForgetGroup
from tidegate_coordination.rules.consumer_groups.offset_expiry import expired_offsets, is_spent
from tidegate_coordination.rules.consumer_groups.offsets import DeleteOffsets
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal as R

KEY = (TOPIC, 0)


def is_pending(world: TransactionWorld) -> bool:
    return world.state.transactions.is_pending(GROUP, KEY)


@pytest.mark.parametrize("committed", [True, False])
def test_staged_offsets_count_once_they_are_committed(committed: bool) -> None:
    world = TransactionWorld()
    who = world.init()
    assert world.stage(who, 5) == [True]
    assert (world.offset, is_pending(world)) == (None, True)
    world.end(who, committed=committed)
    assert (world.offset, is_pending(world)) == (5 if committed else None, False)


def test_an_older_client_adds_the_group_first() -> None:
    world = TransactionWorld()
    who = world.init()
    assert world.stage(who, 5, may_add=False) is R.NOT_ADDED
    assert world.grow(who, groups=(GROUP,)) is None
    assert world.stage(who, 5, may_add=False) == [True]
    world.end(who, bumps=False)
    assert world.offset == 5


def test_a_fenced_client_stages_nothing() -> None:
    world = TransactionWorld()
    who = world.init()
    world.init()
    assert world.stage(who, 5) is R.FENCED
    assert world.stage(who, 5, name="y") is R.UNKNOWN_ID


def test_a_plain_commit_after_the_staging_holds() -> None:
    world = TransactionWorld()
    who = world.init()
    world.commit_offset(1)
    world.stage(who, 5)
    assert world.offset == 1
    world.commit_offset(3)
    assert is_pending(world)
    world.end(who)
    assert world.offset == 3


def test_what_was_staged_last_holds_whichever_ends_first() -> None:
    for first_ends_first in (True, False):
        world = TransactionWorld()
        one, other = world.init(), world.init("y")
        world.stage(one, 5)
        world.stage(other, 7, name="y")
        ends = [(one, "x"), (other, "y")]
        for who, name in ends if first_ends_first else reversed(ends):
            world.end(who, name)
        assert world.offset == 7


def test_deleted_offsets_are_not_committed_later() -> None:
    world = TransactionWorld()
    who = world.init()
    world.commit_offset(1)
    world.stage(who, 5)
    world.propose(DeleteOffsets(GROUP, (KEY,)))
    assert not is_pending(world)
    world.end(who)
    assert world.offset is None


def test_deleted_offsets_are_not_committed_later_though_none_was_committed_before() -> None:
    world = TransactionWorld()
    who = world.init()
    world.stage(who, 5)
    [answer] = world.propose(DeleteOffsets(GROUP, ((TOPIC, 1), KEY, KEY)))
    assert answer == [True, True, True]
    assert not is_pending(world)
    world.end(who)
    assert world.offset is None


def test_a_group_that_only_has_staged_offsets_is_there() -> None:
    world = TransactionWorld()
    who = world.init()
    world.stage(who, 5)
    group = world.state.groups.get(GROUP)
    assert group is not None
    assert (group.offsets, group.empty_since_ms) == ({}, world.state.log_time_ms)
    assert not is_spent(world.state, group, 0, world.clock_ms + 10**9)
    world.end(who, committed=False)
    assert is_spent(world.state, group, 0, world.clock_ms + 10**9)


def test_a_deleted_group_gets_no_offsets_when_the_transaction_ends() -> None:
    world = TransactionWorld()
    who = world.init()
    world.stage(who, 5)
    assert world.propose(DeleteGroup(GROUP)) == [Deletion.DELETED]
    world.end(who)
    assert world.state.groups.get(GROUP) is None


def test_a_group_that_only_has_staged_offsets_is_not_forgotten() -> None:
    world = TransactionWorld()
    who = world.init()
    world.stage(who, 5)
    world.propose(ForgetGroup(GROUP))
    assert is_pending(world)
    world.end(who)
    assert world.offset == 5


def test_pending_offsets_do_not_expire() -> None:
    world = TransactionWorld()
    who = world.init()
    world.commit_offset(1)
    world.stage(who, 5)
    group = world.state.groups.get(GROUP)
    assert group is not None
    later_ms = world.clock_ms + 10**9
    assert expired_offsets(world.state, group, 1_000, later_ms) == []
    assert not is_spent(world.state, group, 1, later_ms)
    world.end(who, committed=False)
    assert [e.offset for e in expired_offsets(world.state, group, 1_000, later_ms)] == [1]
