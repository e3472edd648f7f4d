"""Forwarding: answers of other gateways do not count as answers of the log."""

from __future__ import annotations

from contextlib import suppress

import trio
from trio.testing import MockClock

from tests.worlds.forwarding_world import forwarder, forwarding_world
from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.forwarding.leaders import leader
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.rules.gateways import Renew

GATEWAYS = range(1, 6)


async def follow(coordinator: Coordinator) -> None:
    """Read the log without a pause, as a gateway does."""
    while True:
        with suppress(CoordinatorUnavailable):
            await coordinator.catch_up()


async def test_a_report_of_a_gateway_without_the_log_renews_no_lease(
    autojump_clock: MockClock,
) -> None:
    """No gateway reaches the log, but each answers the questions of the others."""
    async with forwarding_world() as world:
        logs = {each: FaultyLog(world.log, LogFaults(), world.rng) for each in GATEWAYS}
        for node_id, log in logs.items():
            await world.start(node_id, log=log)
        await world.settle()
        asked_first = leader(world.gateways[1].state, set())
        assert asked_first is not None
        author = next(world.gateways[each] for each in GATEWAYS if each != asked_first.node_id)
        for log in logs.values():
            log.faults = LogFaults(outage=1.0)
        author.submit(Renew(), lambda _: None, lambda _: None)
        world.nursery.start_soon(follow, author)
        await trio.sleep(author.state.gateways.lease_ms / 1000)
        for _ in range(100):
            await trio.sleep(0.25)
            assert author.is_cut_off
        assert forwarder(author).counters.asked > forwarder(author).counters.unanswered
