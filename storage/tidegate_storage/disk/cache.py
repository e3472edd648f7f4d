"""A cache of object parts on a local disk.

The cache survives a restart, and an operator may delete it. Its disk space is bounded, and cold
scans do not flush it (range_cache.py): a part is on probation until a reader uses it again more
than RECENT_SECONDS after it came. (Uses that follow each other closely come from one reader, or
from several readers of the same parts; they do not predict later use.)

Reads and writes run in the disk's threads.  Fetches never wait for a write: a part that cannot be
written at once, because the write queue is full or the disk is full or broken, is not kept.  After
a failure of the disk, of a thread or of memory, the cache stops for REST_SECONDS and logs a
warning.  On a full disk it also shrinks (room.py).  A missing or damaged file is a miss and no
error: the object store holds every byte.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Event
from typing import TypeVar
from weakref import WeakSet

import structlog
import trio

from ..range_cache import RangeCache
from ..stores.files.file_part import FileChanged, FilePart
from ..stores.files.steps import Disk
from .cache_files import (
    DamagedFile,
    FileKey,
    FileName,
    NewFile,
    Place,
    Verified,
    file_key,
    find_files,
    read_file,
    remove_files,
    write_files,
)
from .queue import Batch, Offer, WriteQueue
from .room import DiskRoom

T = TypeVar("T")

_log = structlog.get_logger("tidegate.disk_cache")

# How long the cache rests after a failure, and how long between two warnings about it.
REST_SECONDS = 60.0
# The deadline of one step on the disk; after it the cache rests.
STEP_SECONDS = 10.0
# Uses within this time after a part was stored count as the same reader's.
RECENT_SECONDS = 60.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOST = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


@dataclass(slots=True)
class DiskCacheCounters:
    """Since the start.  sent_bytes: sent from files without passing through Python.

    skipped_writes: parts that were not kept.  damaged_files: torn, flipped, cut or written to.
    lost_files: files that others removed. failures: failed reads, writes and removals.
    """

    hits: int = 0
    misses: int = 0
    writes: int = 0
    skipped_writes: int = 0
    damaged_files: int = 0
    lost_files: int = 0
    failures: int = 0
    sent_bytes: int = 0


@dataclass(slots=True, eq=False)
class _Kept:
    """A file. since: when the file was stored, in seconds.

    on_drop: called when the cache drops the file.
    """

    name: FileName
    since: float
    is_written: bool = False
    is_dropped: bool = False
    on_drop: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class _Use:
    """See FileUse.  There is one for each open file, which lives as long as the file is open."""

    counters: DiskCacheCounters
    on_use: Callable[[], None]
    on_change: Callable[[str], None]
    run: Callable[[Callable[[], None]], Awaitable[None]]

    def used(self) -> None:
        self.on_use()

    def sent(self, size_bytes: int) -> None:
        self.counters.sent_bytes += size_bytes

    def changed(self, reason: str) -> None:
        self.on_change(reason)

    async def in_thread(self, step: Callable[[], None]) -> None:
        await self.run(step)


class DiskCache:
    """The parts in one folder, up to a bound."""

    def __init__(self, disk: Disk, max_bytes: int) -> None:
        self.counters = DiskCacheCounters()
        self._disk = disk
        self._serials = count()
        self._room = DiskRoom(max_bytes)
        self._uses: WeakSet[_Use] = WeakSet()
        self._files: RangeCache[_Kept] = RangeCache(max_bytes, on_leave=self._leave)
        self._queue = WriteQueue()
        self._doomed: list[str] = []
        self._work = trio.Event()
        self._no_writes_until = -math.inf
        self._no_reads_until = -math.inf
        self._quiet_until: dict[str, float] = {}

    @property
    def used_bytes(self) -> int:
        """Return the bytes of disk space that the files take."""
        return self._files.used_bytes + self._room.stuck_bytes

    @property
    def open_files(self) -> int:
        """Return how many files the holders of parts keep open."""
        return len(self._uses)

    def __contains__(self, place: Place) -> bool:
        """Return whether a part is here; does not count as a use."""
        return file_key(place) in self._files and not self._is_resting()

    # -- reading ----------------------------------------------------------------------------------

    async def read(
        self,
        place: Place,
        check: Callable[[memoryview], T],
        on_drop: Callable[[], None] | None = None,
    ) -> tuple[FilePart, T] | None:
        """Read and verify a part; None if it is not here.

        Args:
          check: checks the bytes, in the disk's thread; may raise DamagedFile.
          on_drop: see Offer; for a caller that keeps the part.
        """
        key = file_key(place)
        kept = self._files.get_nowait(key, promote=False)
        if kept is None or not kept.is_written or self._is_resting():
            self.counters.misses += 1
            await trio.lowlevel.checkpoint()
            return None
        try:
            with trio.fail_after(STEP_SECONDS):
                found = await self._disk.run(lambda steps: read_file(steps, kept.name, check))
        except DamagedFile as error:
            self._give_up(kept, str(error))
        except Exception as error:
            self._cannot_read(kept, error)
        else:
            if not kept.is_dropped:
                self.counters.hits += 1
                kept.on_drop = on_drop or kept.on_drop
                self._use(kept)
                return self._part(kept, found[0]), found[1]
        self.counters.misses += 1
        return None

    def _use(self, kept: _Kept) -> None:
        if not kept.is_dropped:
            is_later = trio.current_time() - kept.since > RECENT_SECONDS
            self._files.get_nowait(kept.name.key, promote=is_later)

    def _is_resting(self) -> bool:
        return trio.current_time() < self._no_reads_until

    def _part(self, kept: _Kept, found: Verified) -> FilePart:
        use = _Use(
            self.counters,
            partial(self._use, kept),
            partial(self._give_up, kept),
            partial(self._in_thread, kept),
        )
        self._uses.add(use)
        return FilePart(found.file, found.stamp, use, 0, kept.name.length)

    async def _in_thread(self, kept: _Kept, step: Callable[[], None]) -> None:
        try:
            with trio.fail_after(STEP_SECONDS):
                await self._disk.run(lambda steps: step())
        except Exception as error:
            self._cannot_read(kept, error)
            raise FileChanged(_reason(error)) from error

    # -- writing ----------------------------------------------------------------------------------

    def offer(self, offer: Offer) -> None:
        """Queue a part for writing, unless the cache has it or the queue has no room."""
        key = file_key(offer.place)
        if key in self._files or key in self._queue:
            return
        if self._must_not_write() or not self._queue.add(key, offer):
            self.counters.skipped_writes += 1
            return
        self._work.set()

    async def run(self) -> None:
        """Find the files of an earlier process; then write the offered parts, forever."""
        while not await self._find():  # noqa: ASYNC110 - no event says that a disk is back
            await trio.sleep(REST_SECONDS)
        while True:
            self._work = trio.Event()
            while batch := self._queue.take():
                try:
                    await self._write(batch)
                finally:
                    self._queue.done(batch)
            if self._doomed and not self._must_not_write():
                await self._sweep()
            await self._work.wait()

    def _must_not_write(self) -> bool:
        return trio.current_time() < self._no_writes_until

    async def _find(self) -> bool:
        try:
            with trio.fail_after(REST_SECONDS):
                names, torn = await self._disk.run(find_files)
        except Exception as error:
            self._cannot_write(error)
            return False
        for name in names:
            kept = _Kept(name, -math.inf, is_written=True)
            self._files.put(name.key, kept, name.disk_bytes, hot=False)
            if name.disk_bytes > self._files.max_bytes:
                self._doomed.append(name.path)  # the bound was lowered
        self.counters.damaged_files += len(torn)
        self._doomed += torn
        self._work.set()
        return True

    async def _write(self, batch: Batch) -> None:
        placed = [(self._make_room(key, offer), offer) for key, offer in batch]
        wanted = [(kept, offer) for kept, offer in placed if kept is not None]
        fitting = [(kept, offer) for kept, offer in wanted if not kept.is_dropped]
        self.counters.skipped_writes += len(wanted) - len(fitting)
        if not fitting:
            return
        files = [NewFile(kept.name, offer.body, next(self._serials)) for kept, offer in fitting]
        doomed = self._take_doomed()
        try:
            found, stuck = await self._write_files(files, doomed)
        except Exception as error:
            self._doomed += doomed
            for file in files:
                self._files.evict(file.name.key)
            self.counters.skipped_writes += len(files)
            self._cannot_write(error)
            await self._give_way(error)
            return
        for (kept, offer), part in zip(fitting, found, strict=True):
            self._written(kept, offer, part)
        paths = {file.name.path for file in files}
        self._cannot_remove([path for path in stuck if path not in paths])

    async def _write_files(
        self, files: list[NewFile], doomed: list[str]
    ) -> tuple[list[Verified], list[str]]:
        is_over = Event()
        write = partial(write_files, files=files, doomed=doomed, is_given_up=is_over.is_set)
        try:
            with trio.fail_after(STEP_SECONDS):
                return await self._disk.run(write)
        finally:
            is_over.set()

    def _make_room(self, key: FileKey, offer: Offer) -> _Kept | None:
        """Make room before the write, so that the files never exceed their bound.

        Returns:
          The file to write, perhaps dropped already; None if the cache has the part.
        """
        if key in self._files:
            return None  # found since the offer, from an earlier process
        kept = _Kept(FileName(key, len(offer.body), offer.crc32c), trio.current_time())
        if not self._must_not_write():
            self._fit()
            self._files.put(key, kept, kept.name.disk_bytes, hot=False)
        kept.is_dropped = key not in self._files
        return kept

    def _written(self, kept: _Kept, offer: Offer, found: Verified) -> None:
        self._room.replaced(kept.name.path)
        self.counters.writes += 1
        kept.is_written = True
        kept.on_drop = offer.on_drop
        offer.on_stored(self._part(kept, found))

    async def _give_way(self, error: Exception) -> None:
        """Shrink on a full disk: other programs there may hold the only copy of their bytes."""
        if isinstance(error, OSError) and error.errno in _FULL:
            self._room.give_way(self._files.used_bytes, trio.current_time())
            self._fit()
            await self._sweep()

    async def _sweep(self) -> None:
        doomed = self._take_doomed()
        try:
            with trio.fail_after(STEP_SECONDS):
                stuck = await self._disk.run(partial(remove_files, paths=doomed))
        except Exception as error:
            self._doomed += doomed
            self._cannot_write(error)
        else:
            self._cannot_remove(stuck)

    def _take_doomed(self) -> list[str]:
        doomed = [*self._doomed, *self._room.take_stuck(trio.current_time())]
        self._doomed = []
        return doomed

    def _cannot_remove(self, stuck: list[str]) -> None:
        if stuck:
            self.counters.failures += 1
            self._say("files of the disk cache cannot be removed", f"{len(stuck)} files")
            self._room.add_stuck(stuck, trio.current_time())
            self._fit()

    def _fit(self) -> None:
        """Apply the bound that the disk's room allows now."""
        most = self._room.max_bytes(trio.current_time())
        if most != self._files.max_bytes:
            self._files.resize(most)

    # -- giving up --------------------------------------------------------------------------------

    def _leave(self, kept: _Kept) -> None:
        kept.is_dropped = True
        self._doomed.append(kept.name.path)
        self._work.set()
        kept.on_drop()

    def _give_up(self, kept: _Kept, reason: str) -> None:
        """Drop a file whose content does not match its name."""
        if not kept.is_dropped:
            self.counters.damaged_files += 1
            self._say("a file of the disk cache is damaged, and was removed", reason)
            self._files.evict(kept.name.key)

    def _cannot_read(self, kept: _Kept, error: Exception) -> None:
        if kept.is_dropped:
            return
        number = error.errno if isinstance(error, OSError) else None
        if number in _LOST or number == errno.EIO:
            self._files.evict(kept.name.key)
        else:  # the file may be intact: the disk failed, or this process did
            self._no_reads_until = trio.current_time() + REST_SECONDS
        if number in _LOST:
            self.counters.lost_files += 1
        else:
            self.counters.failures += 1
            self._say("the disk cache cannot be read; records come from the store", _reason(error))

    def _cannot_write(self, error: Exception) -> None:
        self._no_writes_until = trio.current_time() + REST_SECONDS
        self.counters.failures += 1
        what = "the disk cache cannot be written; nothing new is kept for a minute"
        self._say(what, _reason(error))

    def _say(self, what: str, reason: str) -> None:
        """Log a warning at most once in REST_SECONDS; the counters hold the number of failures."""
        if trio.current_time() >= self._quiet_until.get(what, -math.inf):
            self._quiet_until[what] = trio.current_time() + REST_SECONDS
            _log.warning(what, reason=reason)


def _reason(error: Exception) -> str:
    if isinstance(error, trio.TooSlowError):
        return "the disk does not answer"
    return str(error) or repr(error)
