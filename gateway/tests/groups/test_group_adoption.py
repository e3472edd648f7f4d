"""Groups without a gateway are adopted, once each, even if that takes long."""

from __future__ import annotations

from random import Random

import trio

from tests.worlds.group_world import Clock, EndGateway, cluster
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog

GROUPS = 5


async def test_claims_do_not_pile_up_while_the_log_is_away(autojump_clock: Clock) -> None:
    log = FaultyLog(MemoryLog(), LogFaults(), Random(1))
    async with cluster(1, 2, log=log) as [one, two]:
        for number in range(GROUPS):
            await one.stable(f"group {number}")
        await two.coordinator.propose(EndGateway(one.coordinator.incarnation))
        one.scope.cancel()
        log.faults = LogFaults(outage=1.0)
        await trio.sleep(600)
        assert len(two.coordinator._queue) <= GROUPS
        log.faults = LogFaults()
        await trio.sleep(60)
        described = [await two.describe(f"group {number}") for number in range(GROUPS)]
        assert [each.group_state for each in described] == ["Empty"] * GROUPS
