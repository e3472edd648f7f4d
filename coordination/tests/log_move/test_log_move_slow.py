"""A new log with few appends a second: gateways are asked once the copy has nearly caught up."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.move_world import MoveWorld, gateways, replayed
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.log.copying import begin_copy
from tidegate_coordination.log.metadata_log import AppendResult
from tidegate_coordination.log.snapshots import encode_state
from tidegate_coordination.log_move.mover import MoveRefused
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.log_moves import BeginLogMove, CancelLogMove

ENTRIES = 500


class SlowLog(MemoryLog):
    """20 entries a second."""

    async def append(self, position: int, payload: bytes) -> AppendResult:
        await trio.sleep(0.05)
        return await super().append(position, payload)


async def far_behind(world: MoveWorld, gateway: Coordinator) -> None:
    """Cut an earlier command short, and let the log grow after that."""
    world.logs["b"] = SlowLog()
    await gateway.propose(BeginLogMove("earlier"))
    await begin_copy(world.logs["b"], await encode_state(gateway.state, as_copy=True))
    await gateway.propose(CancelLogMove("earlier"))
    await world.work(gateway, ENTRIES)


async def test_a_slow_copy_of_the_log_completes(autojump_clock: trio.testing.MockClock) -> None:
    world = MoveWorld(1)
    async with gateways(world, 2) as found:
        await far_behind(world, found[0])
        report = await world.move("b", ready_seconds=600)
        assert report is not None
        assert report.copied > ENTRIES
        await world.work(found[1], 5)
    assert (await replayed(world.logs["b"])).position > report.sealed_at
    world.check_ids()


async def test_a_copy_that_takes_too_long_says_so(autojump_clock: trio.testing.MockClock) -> None:
    world = MoveWorld(2)
    async with gateways(world, 2) as found:
        await far_behind(world, found[0])
        with pytest.RaisesGroup(pytest.RaisesExc(MoveRefused, match="the new log is too slow")):
            await world.move("b", ready_seconds=10)
        await world.work(found[1], 5)
    world.check_ids()
