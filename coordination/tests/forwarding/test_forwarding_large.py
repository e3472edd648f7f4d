"""Forwarding of large proposals: gateways refuse questions above a size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from tests.worlds.forwarding_world import World, forwarder, forwarding_world
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.forwarding.messages import MAX_PROPOSAL_BYTES
from tidegate_coordination.rules.consumer_groups.offsets import CommitOffsets, OffsetToCommit
from tidegate_coordination.rules.gateways import Renew


def commit(size_bytes: int) -> CommitOffsets:
    return CommitOffsets("g", 1, -1, (OffsetToCommit(b"t" * 16, 0, 1, -1, "x" * size_bytes),))


@asynccontextmanager
async def one_that_only_forwards() -> AsyncIterator[tuple[World, Coordinator]]:
    """A world with a gateway that only forwards, and one that appends for it."""
    async with forwarding_world() as world:
        await world.start(1)
        yield world, await world.start(9, leads=False, reaches_log=False)


def submit_all(coordinator: Coordinator, *sizes: int) -> list[int]:
    """Submit commits of these sizes; return the list of their numbers as they are answered."""
    answered: list[int] = []

    def note(number: int, _: object) -> None:
        answered.append(number)

    for number, size_bytes in enumerate(sizes):
        coordinator.submit(
            commit(size_bytes), partial(note, number), lambda failure: pytest.fail(str(failure))
        )
    return answered


async def test_a_proposal_that_no_peer_accepts_fails_and_delays_none_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with one_that_only_forwards() as (_, coordinator):
        asked = forwarder(coordinator).counters.asked
        with pytest.raises(ProposalFailed, match="too large for other gateways"):
            await coordinator.propose(commit(MAX_PROPOSAL_BYTES))
        assert forwarder(coordinator).counters.asked == asked
        await coordinator.propose(Renew())
        assert not forwarder(coordinator)._outbox._unanswered


async def test_a_proposal_larger_than_a_question_travels_in_one_of_its_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The leader accepts the question, but the rules refuse the proposal."""
    async with one_that_only_forwards() as (_, coordinator):
        answered = submit_all(coordinator, 5000, MAX_PROPOSAL_BYTES - 1000, 5000)
        await coordinator.propose(Renew())
        assert answered == [0, 1, 2]
        assert forwarder(coordinator).counters.unanswered == 0


async def test_proposals_too_large_for_a_slow_link_are_committed_in_parts(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2 MiB of proposals wait, but the link can carry only 1 MiB before the timeout."""
    async with one_that_only_forwards() as (world, coordinator):
        world.links.bytes_per_second = 512 << 10
        answered = submit_all(coordinator, *[32 << 10] * 64)
        with trio.fail_after(60):
            await coordinator.propose(Renew())
        assert answered == list(range(64))
