"""Promises of MemoryLog beyond the contract: wait() wakes only on growth, in the order of calls."""

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidegate_coordination.log.metadata_log import AppendResult
from tidegate_coordination.logs.memory import MemoryLog


async def test_wait_sleeps_its_whole_time_without_growth(autojump_clock: MockClock) -> None:
    log = MemoryLog()
    await log.append(1, b"old")
    await log.wait(1, 7.0)
    assert trio.current_time() == 7.0
    await log.wait(0, 7.0)
    assert trio.current_time() == 7.0


async def test_waiters_wake_in_the_order_of_waiting_once_their_position_is_there() -> None:
    log, woken = MemoryLog(), list[str]()

    async def wait(name: str, after_position: int) -> None:
        await log.wait(after_position, 60.0)
        woken.append(name)

    async with trio.open_nursery() as nursery:
        for name, after_position in (("far", 1), ("near", 0)):
            nursery.start_soon(wait, name, after_position)
        await wait_all_tasks_blocked()
        await log.append(1, b"a")
        await wait_all_tasks_blocked()
        assert woken == ["near"]
        await log.append(2, b"b")
    assert woken == ["near", "far"]


async def test_a_fresh_log_may_begin_anywhere() -> None:
    log = MemoryLog()
    await log.trim(1_000)
    assert await log.append(999, b"old life") is AppendResult.TRIMMED
    assert await log.append(1_000, b"new life") is AppendResult.APPENDED
