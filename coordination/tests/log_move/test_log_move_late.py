"""The old log has ended, but the command reads that late, or gets another error first."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tests.worlds.move_world import MoveWorld, Wrap, gateways, register, replayed
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.events.log_moves import LogMoved
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogEntry,
    LogMisconfigured,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.log_move.mover import LogMover, MovePlan, MoveRefused, MoveReport

LATE_SECONDS = 6.0


class LateLog:
    """A log that answers the append of its sealing entry late."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await self._log.append(position, payload)
        events = decode_entry(payload, position).events
        if any(isinstance(each, LogMoved) for each in events):
            await trio.sleep(LATE_SECONDS)
        return result


class RefusingLog(LateLog):
    """A log that refuses reads once it has ended."""

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        if (await replayed(self._log)).log_moves.sealed_at:
            raise LogMisconfigured("its password has changed")
        return await self._log.read(from_position, max_bytes)


async def moved(world: MoveWorld, wrap: Wrap) -> MoveReport:
    """Move the log with a timeout below the last answer's delay; then write to the new log."""
    async with gateways(world, 3) as found:
        report = await world.move("b", wrap=wrap, ready_seconds=LATE_SECONDS - 1)
        await world.work(found[0], 3)
    assert report is not None
    old, new = await replayed(world.logs["a"]), await replayed(world.logs["b"])
    assert report.sealed_at == old.log_moves.sealed_at == old.position < new.position
    assert report.gateways == 3
    assert report.copied > 0
    assert report.stall_entries > 0
    return report


async def test_a_seal_that_is_answered_too_late_has_moved_the_log(
    autojump_clock: trio.testing.MockClock,
) -> None:
    await moved(MoveWorld(1), LateLog)


async def test_an_old_log_that_refuses_reads_after_its_end_has_moved(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The copy cannot continue while the answer to the seal is in transit."""
    wrapped: list[LateLog] = []

    def wrap(log: MetadataLog) -> MetadataLog:
        """The mover copies from the second log that it opens."""
        wrapped.append(RefusingLog(log) if len(wrapped) == 1 else LateLog(log))
        return wrapped[-1]

    await moved(MoveWorld(2), wrap)


async def test_a_move_that_an_earlier_one_overtakes_says_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """By then the new log has entries that the old log, the source, will never have."""
    world = MoveWorld(3)
    log = world.movable(-2)
    coordinator = await world.coordinator(-2, log)
    async with gateways(world, 2) as found, trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await register(coordinator, -9, "late")
        await world.move("b")
        await world.work(found[0], 3)
        source, target, plan = world.opened("a", 7), world.opened("b", 8), MovePlan("late", "b")
        mover = LogMover(coordinator, log, source, target, plan, lambda _: None)
        with pytest.raises(MoveRefused, match="an earlier move has just moved the log to b"):
            await mover.run()
        nursery.cancel_scope.cancel()
    assert (await replayed(world.logs["b"])).log_moves.present is None
