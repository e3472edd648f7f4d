"""Logs that each break one promise, as real logs do, and the contract's expected findings."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import trio

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogCorrupt,
    LogEntry,
    LogMisuse,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.log_contract.checks import OpenLog
from tidegate_coordination.logs.memory import CAPABILITIES, MemoryLog


def same(log: MetadataLog) -> OpenLog:
    """Opens the same log each time, as if each call gave another handle."""

    async def open_log() -> MetadataLog:
        await trio.lowlevel.checkpoint()
        return log

    return open_log


def handles(make: Callable[[], MetadataLog]) -> OpenLog:
    """Opens another handle each time."""

    async def open_log() -> MetadataLog:
        await trio.lowlevel.checkpoint()
        return make()

    return open_log


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
    """Reads from a replica that lacks the last entry."""

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        entries = await super().read(from_position, max_bytes)
        if isinstance(entries, Trimmed):
            return entries
        return [each for each in entries if each.position < self._end - 1]


class _NeverWakes(MemoryLog):
    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await trio.sleep(timeout_seconds)


class _AdmitsTheStalled(MemoryLog):
    """Uses only create-if-absent: a deleted name can be created again."""

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await super().append(position, payload)
        return AppendResult.APPENDED if result is AppendResult.TRIMMED else result


class _HalfSnapshots(MemoryLog):
    """Writes the position first, then chunk after chunk over the old snapshot."""

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


class _LooksThenWrites(MemoryLog):
    """Looks whether the position is free, and writes a moment later."""

    async def append(self, position: int, payload: bytes) -> AppendResult:
        if position != self._end:
            return await super().append(position, payload)
        self.capabilities.check_append(position, payload)
        await trio.sleep(0.001)
        if position < self._end:
            self._payloads[position - self._first_position] = payload
        else:
            await super().append(position, payload)
        return AppendResult.APPENDED


class _LocksEachHandle(MemoryLog):
    """The same, under a lock of this handle alone: right until there is a second handle."""

    def __init__(self, disk: _LooksThenWrites) -> None:
        super().__init__()
        self._disk = disk
        self._lock = trio.Lock()
        for name in ("read", "wait", "save_snapshot", "load_snapshot", "trim"):
            setattr(self, name, getattr(disk, name))

    async def append(self, position: int, payload: bytes) -> AppendResult:
        async with self._lock:
            return await self._disk.append(position, payload)


class _KeepsItsLock(MemoryLog):
    """Keeps its lock when an append is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = trio.Semaphore(1)

    async def append(self, position: int, payload: bytes) -> AppendResult:
        await self._lock.acquire()
        result = await super().append(position, payload)
        self._lock.release()
        return result


class _WritesInPieces(MemoryLog):
    """An append that is cancelled leaves its first half, which holds the position."""

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await super().append(position, payload[:4096])
        if result is AppendResult.APPENDED:
            await trio.sleep(0.002 if len(payload) > 4096 else 0)
            self._payloads[position - self._first_position] = payload
        return result


class _WelcomesRepeats(MemoryLog):
    """Answers APPENDED to an append of the bytes that are there already.

    So two writers may get it.
    """

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await super().append(position, payload)
        held = self._payloads[position - self._first_position]
        is_repeat = result is AppendResult.CONFLICT and held == payload
        return AppendResult.APPENDED if is_repeat else result


class _RefusesGapsSoftly(MemoryLog):
    async def append(self, position: int, payload: bytes) -> AppendResult:
        if position > self._end:
            return AppendResult.CONFLICT
        return await super().append(position, payload)


class _EndsSilently(MemoryLog):
    """Answers a read of lost entries as if the log ended there."""

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        try:
            return await super().read(from_position, max_bytes)
        except LogCorrupt:
            return []


class _Rots(MemoryLog):
    """Changes one bit of the second entry once the log is closed."""

    async def aclose(self) -> None:
        if self._first_position == 1:
            self._payloads[1] = bytes([self._payloads[1][0] | 1])


class _TakesMoreThanItSays(MemoryLog):
    def __init__(self) -> None:
        super().__init__(replace(CAPABILITIES, max_entry_bytes=CAPABILITIES.max_entry_bytes + 1))

    @property
    def capabilities(self) -> LogCapabilities:
        return CAPABILITIES


class _TakesLessThanItSays(MemoryLog):
    async def append(self, position: int, payload: bytes) -> AppendResult:
        if len(payload) > 500_000:
            raise LogMisuse("too large for a row")
        return await super().append(position, payload)


class _WaitsForEver(MemoryLog):
    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        while self._end <= after_position + 1:
            await self._grown.park()


class _WakesOnce(MemoryLog):
    """After a cancelled wait it still counts the caller as a listener."""

    _is_listening = False

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        if self._is_listening:
            await trio.sleep(timeout_seconds)
            return
        self._is_listening = True
        await super().wait(after_position, timeout_seconds)
        self._is_listening = False


class _ForgetsItsBoundary(MemoryLog):
    """Keeps the trim boundary in memory: after it was closed a deleted position is free again."""

    _is_forgotten = False

    async def aclose(self) -> None:
        self._is_forgotten = True

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await super().append(position, payload)
        is_free = self._is_forgotten and result is AppendResult.TRIMMED
        return AppendResult.APPENDED if is_free else result


class _LowersItsBoundary(MemoryLog):
    async def trim(self, before_position: int) -> None:
        await super().trim(before_position)
        gone = self._first_position - before_position
        self._payloads[:0] = [b""] * max(0, gone)
        self._first_position = before_position


class _TrimsOneTooMany(MemoryLog):
    async def trim(self, before_position: int) -> None:
        await super().trim(min(before_position + 1, self._end))


class _DeletesBeforeItsBoundary(MemoryLog):
    """Deletes entries before it writes the boundary, so stalled writers can create them again."""

    _deleting_below = 0

    async def trim(self, before_position: int) -> None:
        self._deleting_below = min(before_position, self._end)
        await trio.sleep(0.005)
        await super().trim(before_position)

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await super().append(position, payload)
        is_free = result is AppendResult.CONFLICT and position < self._deleting_below
        return AppendResult.APPENDED if is_free else result


class _LoadsTheLastSaved(MemoryLog):
    """Loads the snapshot that was saved last: an old one of a slow gateway replaces a newer one."""

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        self._snapshot_position = -1
        await super().save_snapshot(position, chunks)


class _LoadsTheFirstSaved(MemoryLog):
    """Keeps the first saved snapshot, as a cache would."""

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        if self._snapshot is None:
            await super().save_snapshot(position, chunks)


class _JoinsChunks(MemoryLog):
    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await super().save_snapshot(position, [b"".join(chunks)])


class _LosesSnapshots(MemoryLog):
    async def aclose(self) -> None:
        self._snapshot, self._snapshot_position = None, -1


def _locks_each_handle() -> OpenLog:
    disk = _LooksThenWrites()
    return handles(lambda: _LocksEachHandle(disk))


BROKEN: list[tuple[OpenLog, str, str]] = [
    (same(_NoCompareAndSet()), "compare-and-set", "8 writers won position 6, not one"),
    (same(_NoCompareAndSet()), "unknown outcome", "repeating an append that had succeeded"),
    (same(_LooksThenWrites()), "compare-and-set", "8 writers won position 6, not one"),
    (_locks_each_handle(), "compare-and-set", "writers won position 6, not one"),
    (same(_WelcomesRepeats()), "unknown outcome", "repeating an append that had succeeded"),
    (same(_KeepsItsLock()), "append cut short", "the next one hung for 30 s"),
    (same(_WritesInPieces()), "append cut short", "holds another payload"),
    (same(_AdmitsGaps()), "gap refused", "which has no predecessor, answered appended"),
    (same(_RefusesGapsSoftly()), "gap refused", "which has no predecessor, answered conflict"),
    (same(_Forgets()), "reopen keeps all", "is gone"),
    (same(_Rots()), "reopen keeps all", "position 2 holds another payload"),
    (same(_Reorders()), "order and no gaps", "a gap or disorder"),
    (same(_SkipsEntries()), "order and no gaps", "a gap or disorder"),
    (same(_EndsSilently()), "lost entries noticed", "lost entries go unseen"),
    (same(_LagsBehind()), "reads after append", "is gone"),
    (same(_NeverWakes()), "wait wakes", "wait slept for 30 s after an append"),
    (same(_WaitsForEver()), "wait wakes", "wait did not keep its time-out"),
    (same(_WakesOnce()), "wait cut short", "after a wait that was cancelled, the next one slept"),
    (same(_CutsLargeEntries()), "max entry size kept", "holds another payload"),
    (same(_TakesMoreThanItSays()), "max entry size kept", "was not refused with LogMisuse"),
    (same(_TakesLessThanItSays()), "max entry size kept", "raised LogMisuse: too large for a row"),
    (same(_AdmitsTheStalled()), "trim boundary", "below the boundary 87, answered appended"),
    (same(_ForgetsItsBoundary()), "trim boundary", "below the boundary 87, answered appended"),
    (same(_LowersItsBoundary()), "trim boundary", "below the boundary 87, answered conflict"),
    (same(_TrimsOneTooMany()), "trim boundary", "does not say Trimmed"),
    (same(_DeletesBeforeItsBoundary()), "trim under way", "answered appended during a trim"),
    (same(_HalfSnapshots()), "snapshot cut short", "half a snapshot was loaded"),
    (same(_LoadsTheLastSaved()), "snapshot whole", "not the snapshot of the highest position"),
    (same(_LoadsTheFirstSaved()), "snapshot whole", "reads back other than it was saved"),
    (same(_JoinsChunks()), "snapshot whole", "reads back other than it was saved"),
    (same(_LosesSnapshots()), "snapshot whole", "the snapshot is gone after opening again"),
]
