"""Forwarding: proposals whose callers no longer wait, and that may still be committed."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.forwarding_world import forwarder, forwarding_world
from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    Failure,
)
from tidegate_coordination.forwarding.leaders import leader
from tidegate_coordination.log.access import LAST_RETRY_SECONDS
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.rules.gateways import Renew
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds

OUTAGE = LogFaults(outage=1.0)


async def propose_in_vain(coordinator: Coordinator) -> None:
    with pytest.raises(CoordinatorUnavailable):
        await coordinator.propose(ReserveProducerIds(1))


async def test_a_sent_proposal_is_asked_for_even_without_a_waiting_caller(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A sent proposal may have been committed, so the author does not acknowledge its number."""
    async with forwarding_world() as world:
        await world.start(1)
        coordinator = await world.start(9, leads=False, reaches_log=False)
        world.links.down.add(1)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(propose_in_vain, coordinator)
        assert len(forwarder(coordinator)._outbox._unanswered) == 4
        world.links.down.clear()
        await coordinator.propose(Renew())
        assert not forwarder(coordinator)._outbox._unanswered


async def test_a_proposal_that_another_gateway_may_still_decide_is_not_overtaken(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The author sends a proposal to a gateway that loses the log.

    The author then takes the proposal back, and loses the log too.
    """
    async with forwarding_world() as world:
        logs = {each: FaultyLog(world.log, LogFaults(), world.rng) for each in (1, 2)}
        for each, log in logs.items():
            await world.start(each, log=log)
        await world.settle()
        found = leader(world.gateways[1].state)
        assert found is not None
        theirs, mine = logs.pop(found.node_id), *logs.values()
        author = next(each for node_id, each in world.gateways.items() if node_id != found.node_id)

        def cut(_: object) -> None:
            theirs.faults = mine.faults = OUTAGE

        answers: list[int] = []
        author.submit(Renew(), cut, _unexpected)
        await trio.testing.wait_all_tasks_blocked()  # later proposals travel together
        async with trio.open_nursery() as nursery:
            nursery.start_soon(propose_in_vain, author)
            await trio.testing.wait_all_tasks_blocked()
            author.submit(ReserveProducerIds(1), answers.append, _unexpected)
        mine.faults = LogFaults()
        await trio.sleep(2 * LAST_RETRY_SECONDS)
        theirs.faults = LogFaults()
        await author.propose(Renew())
        await world.settle()
        numbers = [event.number for _, events in await world.entries() for event in events]
    assert numbers[:3] == [1, 2, 3]
    assert answers == [0]  # the previous proposal was withdrawn, and failed


def _unexpected(failure: Failure) -> None:
    raise AssertionError(failure)
