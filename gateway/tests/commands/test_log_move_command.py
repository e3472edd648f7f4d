"""Once the log has moved, `tidegate log move` reports success, whatever fails afterwards."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from tests.worlds.move_world import MoveWorld, gateways, replayed
from tidegate_coordination.coordinator.visitor import LEAVE_SECONDS
from tidegate_coordination.log.metadata_log import AppendResult, MetadataLog
from tidegate_gateway.cli.log import move
from tidegate_gateway.cli.log.backup_running import Progress


class SilentLog:
    """A new log that takes no entry of the command once the old log is sealed."""

    def __init__(self, log: MetadataLog, old: MetadataLog) -> None:
        self._log = log
        self._old = old

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, position: int, payload: bytes) -> AppendResult:
        if 0 < (await replayed(self._old)).log_moves.sealed_at < position:
            await trio.sleep_forever()
        return await self._log.append(position, payload)


async def test_a_new_log_that_does_not_take_the_leaving_is_no_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(1)
    async with gateways(world, 2) as found:
        log = world.movable(-2, lambda each: SilentLog(each, world.logs["a"]))
        coordinator = await world.coordinator(-2, log)
        options = move.LogMoveOptions("a", "b", False, 60, 3)
        opened = log, world.opened("a", 7), world.opened("b", 8)
        with trio.fail_after(LEAVE_SECONDS + 2):
            report = await move._move(coordinator, *opened, options, Progress(quiet=True))
        assert report.sealed_at == (await replayed(world.logs["a"])).position
        await world.work(found[0], 3)
