"""Forwarding of what is large: peers refuse questions over a bound, whatever they hold."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from tests.forwarding_world import forwarding_world
from tidegate_coordination.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.forwarding.forwarder import ForwardingCoordinator
from tidegate_coordination.forwarding.messages import MAX_PROPOSAL_BYTES
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.offsets import CommitOffsets, OffsetToCommit


def commit(size_bytes: int) -> CommitOffsets:
    return CommitOffsets("g", 1, -1, (OffsetToCommit(b"t" * 16, 0, 1, -1, "x" * size_bytes),))


async def test_one_that_no_peer_takes_fails_and_holds_up_none_behind_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with forwarding_world() as world:
        await world.start(1)
        only_forwards = await world.start(9, leads=False, reaches_log=False)
        with pytest.raises(ProposalFailed, match="too large for other gateways"):
            await only_forwards.propose(commit(MAX_PROPOSAL_BYTES))
        await only_forwards.propose(Renew())
        assert only_forwards._acknowledged == only_forwards._next_number - 1


async def test_one_that_is_larger_than_a_question_should_be_travels_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It is refused, but by the rules."""
    async with forwarding_world() as world:
        await world.start(1)
        only_forwards = await world.start(9, leads=False, reaches_log=False)
        assert await only_forwards.propose(commit(MAX_PROPOSAL_BYTES - 1000))


async def test_what_is_too_much_for_a_slow_line_comes_true_in_parts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2 MiB wait, and 1 MiB can be sent in time."""
    async with forwarding_world() as world:
        await world.start(1)
        only_forwards = await world.start(9, leads=False, reaches_log=False)
        world.links.bytes_per_second = 512 << 10
        answered: list[int] = []
        for number in range(64):
            only_forwards.submit(
                commit(32 << 10),
                partial(note, answered, number),
                lambda failure: pytest.fail(str(failure)),
            )
        with trio.fail_after(60):
            await only_forwards.propose(Renew())
        assert answered == list(range(64))


async def test_what_was_sent_is_asked_for_though_nobody_waits_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It may have come true, so its number is not said to be done with."""
    async with forwarding_world() as world:
        await world.start(1)
        only_forwards = await world.start(9, leads=False, reaches_log=False)
        world.links.down.add(1)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(propose_in_vain, only_forwards)
        assert len(only_forwards._unanswered) == 4
        world.links.down.clear()
        await only_forwards.propose(Renew())
        assert only_forwards._acknowledged == only_forwards._next_number - 1


def note(answered: list[int], number: int, _: object) -> None:
    answered.append(number)


async def propose_in_vain(coordinator: ForwardingCoordinator) -> None:
    with pytest.raises(CoordinatorUnavailable):
        await coordinator.propose(Renew())
