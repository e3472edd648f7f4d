"""A process notices that it was stopped a moment ago."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidegate_coordination.coordinator.standstill import (
    AFTER_SECONDS,
    ENOUGH_SECONDS,
    TICK_SECONDS,
    Standstill,
)

ENOUGH = TICK_SECONDS + ENOUGH_SECONDS


async def test_a_process_that_was_stopped_knows_for_a_while(mock_clock: MockClock) -> None:
    standstill = Standstill()
    assert not standstill.is_recent
    async with trio.open_nursery() as nursery:
        nursery.start_soon(standstill.watch)
        await wait_all_tasks_blocked()
        mock_clock.jump(ENOUGH - 0.1)
        assert not standstill.is_recent
        await wait_all_tasks_blocked()
        mock_clock.jump(ENOUGH + 0.1)
        assert standstill.is_recent  # before and after the watch had its turn
        await wait_all_tasks_blocked()
        mock_clock.jump(AFTER_SECONDS - 0.1)
        assert standstill.is_recent
        mock_clock.jump(0.2)
        assert not standstill.is_recent
        nursery.cancel_scope.cancel()


async def test_time_that_passes_is_no_standstill(autojump_clock: MockClock) -> None:
    standstill = Standstill()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(standstill.watch)
        await trio.sleep(1000)
        assert not standstill.is_recent
        nursery.cancel_scope.cancel()
