"""Dead drivers of the pipeline stop neither the cluster's time nor the expiry of their leases.

Each start of a driver is a new incarnation that supersedes no earlier one.  So there may be more
dead drivers than live ones, and the clocks of dead drivers mean nothing.
"""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import NOW_MS, wire_world
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState


async def start_and_die(log: MemoryLog, number: int) -> None:
    """Register a driver that then sends nothing any more."""
    coordinator = Coordinator(
        log,
        ClusterState(),
        rng=Random(number),
        wall_clock=lambda: NOW_MS / 1000 + trio.current_time(),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await coordinator.catch_up()
        key = f"driver {number}"
        driver = Register(-number, key, "", (), "0", "", highest_version=NEWEST)
        await coordinator.propose(driver)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("drivers", [1, 2, 5])
async def test_dead_drivers_expire_and_log_time_continues(
    drivers: int, autojump_clock: MockClock
) -> None:
    log = MemoryLog()
    async with wire_world(log=log) as world:
        for number in range(1, drivers + 1):
            await start_and_die(log, number)
        state = world.gateway.coordinator.state
        await world.gateway.coordinator.catch_up()
        assert len(state.gateways.live) == 1 + drivers
        before_ms = state.log_time_ms

        await trio.sleep(120)

        assert [each.node_id for each in state.gateways.live.values()] == [1]
        assert state.log_time_ms - before_ms > 100_000
