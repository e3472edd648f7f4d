"""The public contract: green on our logs, red on broken ones, and for the right reason."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.log_checks import CHECKS, OpenLog
from tidegate_coordination.log_contract import verify_log
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.sqlite import open_file
from tidegate_coordination.metadata_log import (
    AppendResult,
    LogEntry,
    MetadataLog,
    Snapshot,
    Trimmed,
)


def same(log: MetadataLog) -> OpenLog:
    async def open_log() -> MetadataLog:
        await trio.lowlevel.checkpoint()
        return log

    return open_log


async def findings(open_log: OpenLog) -> dict[str, str]:
    """The checks that failed, with their sentences."""
    reported: list[tuple[str, bool, str]] = []
    good = await verify_log(open_log, lambda *row: reported.append(row))
    failed = {name: text for name, held, text in reported if not held}
    assert good is not bool(failed)
    assert all(text for _, _, text in reported)
    assert len(reported) in (1, 1 + len(CHECKS))
    return failed


async def test_memory_keeps_the_contract(autojump_clock: MockClock) -> None:
    assert await findings(same(MemoryLog())) == {}


async def test_sqlite_in_a_thread_keeps_the_contract(tmp_path: Path) -> None:
    assert await findings(lambda: open_file(tmp_path / "log.db")) == {}


async def test_sqlite_in_the_loop_keeps_the_contract(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    assert await findings(lambda: open_file(tmp_path / "log.db", in_loop=True)) == {}


async def test_a_log_in_use_is_left_alone() -> None:
    log = MemoryLog()
    await log.append(1, b"precious")
    failed = await findings(same(log))
    assert list(failed) == ["starts empty"]
    assert "need a fresh one" in failed["starts empty"]
    assert await log.read(1, 100) == [LogEntry(1, b"precious")]


async def test_a_trimmed_log_is_left_alone() -> None:
    log = MemoryLog()
    await log.trim(7)
    assert list(await findings(same(log))) == ["starts empty"]


class _NoCompareAndSet(MemoryLog):
    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await super().append(position, payload)
        if result is AppendResult.CONFLICT:
            self._payloads[position - self._first_position] = payload
            return AppendResult.APPENDED
        return result


class _AdmitsGaps(MemoryLog):
    async def append(self, position: int, payload: bytes) -> AppendResult:
        while position > self._end:
            self._payloads.append(b"")
        return await super().append(position, payload)


class _Forgets(MemoryLog):
    """Has lost the newest entry after it was closed: an append that was not durable."""

    async def aclose(self) -> None:
        if self._payloads:
            self._payloads.pop()


class _Reorders(MemoryLog):
    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        entries = await super().read(from_position, max_bytes)
        return entries if isinstance(entries, Trimmed) else entries[::-1]


class _SkipsEntries(MemoryLog):
    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        entries = await super().read(from_position, max_bytes)
        return entries if isinstance(entries, Trimmed) else [*entries[:1], *entries[2:]]


class _LagsBehind(MemoryLog):
    """Reads from a replica that is one entry behind."""

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        entries = await super().read(from_position, max_bytes)
        if isinstance(entries, Trimmed):
            return entries
        return [each for each in entries if each.position < self._end - 1]


class _NeverWakes(MemoryLog):
    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await trio.sleep(timeout_seconds)


class _AdmitsTheStalled(MemoryLog):
    """Create-if-absent alone: a name that was deleted can be created again."""

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await super().append(position, payload)
        return AppendResult.APPENDED if result is AppendResult.TRIMMED else result


class _HalfSnapshots(MemoryLog):
    """Puts chunk after chunk over the old snapshot, and notes the position first."""

    _saved: tuple[int, list[bytes]] | None = None

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        self._saved = (position, [])
        for chunk in chunks:
            await trio.sleep(0.001)
            self._saved[1].append(chunk)

    async def load_snapshot(self) -> Snapshot | None:
        return self._saved and Snapshot(*self._saved)


class _CutsLargeEntries(MemoryLog):
    async def append(self, position: int, payload: bytes) -> AppendResult:
        return await super().append(position, payload[:65_535])


@pytest.mark.parametrize(
    ("log", "check", "words"),
    [
        (_NoCompareAndSet(), "compare-and-set", "8 writers won position 6, not one"),
        (_NoCompareAndSet(), "unknown outcome", "repeating an append that had succeeded"),
        (_AdmitsGaps(), "gap refused", "which has no predecessor, answered appended"),
        (_Forgets(), "reopen keeps all", "is gone"),
        (_Reorders(), "order and no gaps", "a gap or disorder"),
        (_SkipsEntries(), "order and no gaps", "a gap or disorder"),
        (_LagsBehind(), "reads after append", "is gone"),
        (_NeverWakes(), "wait wakes", "wait slept for 30 s after an append"),
        (_AdmitsTheStalled(), "trim boundary", "below the boundary 88, answered appended"),
        (_HalfSnapshots(), "snapshot cut short", "half a snapshot was loaded"),
        (_CutsLargeEntries(), "max entry size kept", "holds another payload"),
    ],
)
async def test_a_broken_log_is_told_what_it_broke(
    log: MetadataLog, check: str, words: str, autojump_clock: MockClock
) -> None:
    failed = await findings(same(log))
    assert words in failed.get(check, f"held, but these failed: {failed}")
