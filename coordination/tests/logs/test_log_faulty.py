"""The fault-injecting log: each fault does what it says, is counted, and repeats by seed."""

import random

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.log.metadata_log import AppendResult, LogEntry, LogUnavailable
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog


def faulty(faults: LogFaults, seed: int = 0) -> tuple[MemoryLog, FaultyLog]:
    log = MemoryLog()
    return log, FaultyLog(log, faults, random.Random(seed))


async def test_without_faults_a_faulty_log_is_the_log() -> None:
    log, wrapped = faulty(LogFaults())
    assert await wrapped.append(1, b"a") is AppendResult.APPENDED
    await wrapped.save_snapshot(1, [b"s"])
    assert await wrapped.load_snapshot() == (1, [b"s"])
    await wrapped.wait(0, 1.0)
    await wrapped.trim(2)
    assert await wrapped.read(2, 10) == await log.read(2, 10) == []
    assert wrapped.capabilities == log.capabilities
    assert not wrapped.landed
    await wrapped.aclose()


async def test_ambiguous_append_is_done() -> None:
    log, wrapped = faulty(LogFaults(ambiguous_append=1.0))
    with pytest.raises(LogUnavailable):
        await wrapped.append(1, b"a")
    assert await log.read(1, 10) == [LogEntry(1, b"a")]
    assert wrapped.landed == {"ambiguous_append": 1}
    assert await wrapped.append(1, b"a") is AppendResult.CONFLICT


async def test_lost_append_is_not_done() -> None:
    log, wrapped = faulty(LogFaults(lost_append=1.0))
    with pytest.raises(LogUnavailable):
        await wrapped.append(1, b"a")
    assert await log.read(1, 10) == []
    assert wrapped.landed == {"lost_append": 1}


async def test_late_append_lands_before_a_later_call() -> None:
    log, wrapped = faulty(LogFaults(late_append=1.0))
    with pytest.raises(LogUnavailable):
        await wrapped.append(1, b"a")
    assert await log.read(1, 10) == []
    assert not wrapped.landed
    wrapped.faults = LogFaults()
    for _ in range(3):
        await wrapped.load_snapshot()
    assert await log.read(1, 10) == [LogEntry(1, b"a")]
    assert wrapped.landed == {"late_append": 1}


async def test_late_append_can_lose_its_position() -> None:
    log, wrapped = faulty(LogFaults(late_append=1.0))
    with pytest.raises(LogUnavailable):
        await wrapped.append(1, b"a")
    await log.append(1, b"other gateway")
    await wrapped.land_late()
    assert await log.read(1, 99) == [LogEntry(1, b"other gateway")]
    assert wrapped.landed == {"late_append_refused": 1}


async def test_read_error() -> None:
    _, wrapped = faulty(LogFaults(read_error=1.0))
    with pytest.raises(LogUnavailable):
        await wrapped.read(1, 10)
    with pytest.raises(LogUnavailable):
        await wrapped.load_snapshot()
    assert wrapped.landed == {"read_error": 2}


async def test_snapshot_error_is_sometimes_done() -> None:
    saved: set[bool] = set()
    for seed in range(20):
        log, wrapped = faulty(LogFaults(snapshot_error=1.0), seed)
        with pytest.raises(LogUnavailable):
            await wrapped.save_snapshot(1, [b"s"])
        with pytest.raises(LogUnavailable):
            await wrapped.trim(1)
        assert wrapped.landed == {"snapshot_error": 2}
        saved.add(await log.load_snapshot() is not None)
    assert saved == {True, False}


async def test_lost_wakeup_sleeps_through_growth(autojump_clock: MockClock) -> None:
    log, wrapped = faulty(LogFaults(lost_wakeup=1.0))
    await log.append(1, b"a")
    await wrapped.wait(0, 5.0)
    assert trio.current_time() == 5.0
    assert wrapped.landed == {"lost_wakeup": 1}


async def test_slow_takes_time_before_or_after(autojump_clock: MockClock) -> None:
    _, wrapped = faulty(LogFaults(slow=1.0, slow_seconds=8.0))
    for position in range(1, 9):
        before = trio.current_time()
        assert await wrapped.append(position, b"a") is AppendResult.APPENDED
        assert 0 < trio.current_time() - before <= 8.0
    assert wrapped.landed == {"slow": 8}


async def test_the_seed_repeats_the_faults() -> None:
    faults = LogFaults(ambiguous_append=0.2, lost_append=0.2, late_append=0.2, read_error=0.3)

    async def trace(seed: int) -> list[str]:
        log, wrapped = faulty(faults, seed)
        seen: list[str] = []
        for number in range(60):
            try:
                end = len(await log.read(1, 10_000))  # type: ignore[arg-type]
                seen.append(str(await wrapped.append(end + 1, b"%d" % number)))
            except LogUnavailable as error:
                seen.append(str(error))
        return seen

    assert await trace(1) == await trace(1)
    assert await trace(1) != await trace(2)
