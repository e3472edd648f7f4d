"""A stop ends every wait of the pipeline, even if the signal came before the wait."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio

from tidegate_pipeline.commands.parts import StoppableLocalRunner
from tidegate_pipeline.commands.stopping import (
    FORCE_SECONDS,
    StopAsked,
    Stopping,
    stopping_by_signals,
)
from tidegate_pipeline.tasks.work import MergeTask, MergeUnit, Source

UNIT = MergeUnit(1, bytes(16), 0, (Source("held", 0, 61, 0, 1, 0, -1, 0),))
TASK = MergeTask("cluster", 1, 7, 1024, (UNIT,))


async def test_a_call_registered_after_the_signal_is_made_at_once() -> None:
    stopping = Stopping()
    calls: list[str] = []
    stopping.tell(lambda: calls.append("early"))
    assert calls == []
    stopping.ask()
    stopping.tell(lambda: calls.append("late"))
    assert calls == ["early", "late"]


async def test_a_signal_ends_a_wait(autojump_clock: trio.testing.MockClock) -> None:
    stopping = Stopping()
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            await trio.sleep(1)
            stopping.ask()

        nursery.start_soon(ask)
        with pytest.raises(StopAsked), stopping.until_asked():
            await trio.sleep_forever()
        assert trio.current_time() == pytest.approx(1)
    with pytest.raises(StopAsked), stopping.until_asked():
        await trio.lowlevel.checkpoint()


async def test_forced_calls_are_made_some_time_after_the_first_signal(
    autojump_clock: trio.testing.MockClock,
) -> None:
    forced = trio.Event()
    async with stopping_by_signals() as stopping:
        stopping.tell_by_force(forced.set)
        began = trio.current_time()
        os.kill(os.getpid(), signal.SIGTERM)
        await forced.wait()
        assert stopping.is_asked
        assert trio.current_time() >= began + FORCE_SECONDS


async def test_a_stop_ends_a_local_task_whose_store_hangs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    runner = StoppableLocalRunner(f"file:{tmp_path}")

    async def stop_when_read() -> None:
        handle = await trio.to_thread.run_sync(os.open, tmp_path / "held", os.O_WRONLY)
        runner.stop()
        await stopped.wait()
        os.close(handle)

    stopped = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_when_read)
        with trio.fail_after(10):
            assert [each async for each in runner.run([TASK])] == []
            assert [each async for each in runner.run([TASK])] == []
        stopped.set()
    await runner.aclose()
