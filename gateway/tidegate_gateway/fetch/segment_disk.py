"""Chunks and indexes of segments on local disk, as the reader sees them.

A cold chunk is written to disk once it is verified, and replies then send it from its file.  Memory
keeps only the positions of its batches, and the kernel caches the bytes if it has room.  Hot chunks
stay in memory.  Before the first send of a chunk that an earlier incarnation wrote, a thread
verifies it.  File runs are in the reader's cache, and each keeps a file open, so there is a limit
on their number.  Replies that are being sent may keep as many further files open.  Beyond that,
chunks are sent from memory.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import NamedTuple

from crc32c import crc32c

from tidegate_coordination.state.records.objects import ObjectName
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.disk.cache_files import DamagedFile, Place
from tidegate_storage.disk.queue import Offer
from tidegate_storage.objects.corrupt import CorruptObject, UnknownVersion
from tidegate_storage.objects.prepared_runs import CorruptBatches, in_file, prepare_chunk
from tidegate_storage.objects.segment_format import SegmentIndex
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.files.file_part import FilePart
from tidegate_storage.stores.object_store import Buffer

from .fetch_plan import Run
from .prepared_runs import FileRun, PreparedRun, chunk_of
from .segment_rows import is_chunk, published_index

MAX_OPEN_FILES = 512


class PartKey(NamedTuple):
    """The key of a run, chunk or index in the reader's cache."""

    name: ObjectName
    position: int


class SegmentDisk:
    """See the module's head.

    Args:
      files: None without a disk cache.
      memory: the reader's cache, by PartKey.
      max_open_files: of the cache; replies that are being sent may keep as many further files open.
    """

    def __init__(
        self,
        files: DiskCache | None,
        memory: RangeCache[object],
        *,
        max_open_files: int = MAX_OPEN_FILES,
    ) -> None:
        self._files = files
        self._memory = memory
        self._max_open_files = max_open_files
        self._open: OrderedDict[PartKey, None] = OrderedDict()

    @property
    def is_on(self) -> bool:
        """Return whether there is a disk cache."""
        return self._files is not None

    def holds(self, place: Place) -> bool:
        """Return whether a chunk or index is on disk."""
        return self._files is not None and place in self._files

    def is_ready(self, key: PartKey, run: FileRun) -> bool:
        """Return whether a run can be sent at once; a stale run is dropped, and then read again."""
        if not run.view.is_ready():
            self._memory.evict(key)
            return False
        self._opened(key)
        return True

    async def chunk(self, key: PartKey, place: Place, row: RunRow) -> Run | None:
        """Return a chunk on disk: to send from its file, or in memory if many files are open."""
        if self._files is None or not is_chunk(row):
            return None
        found = await self._files.read(place, partial(_read_chunk, row), partial(self._forget, key))
        if found is None:
            return None
        part, run = found
        if self._are_too_many_open(self._files):
            return run
        self._opened(key)
        return in_file(run, part)

    async def chunk_in_memory(self, place: Place, row: RunRow) -> PreparedRun | None:
        """Return a chunk from disk in memory, for inspection."""
        assert self._files is not None
        found = await self._files.read(place, partial(_read_chunk, row))
        return found[1] if found is not None else None

    async def index(self, place: Place, row: RunRow, partition: Partition) -> SegmentIndex | None:
        """Return the index of a segment from disk; None if it is not there."""
        if self._files is None:
            return None
        found = await self._files.read(place, partial(_read_index, row, partition))
        return found[1] if found is not None else None

    def keep_chunk(
        self, key: PartKey, place: Place, row: RunRow, run: PreparedRun, *, hot: bool
    ) -> None:
        """Write a chunk to disk; unless it is hot, replies then send it from its file."""
        files = self._files
        if files is None or not is_chunk(row):
            return

        def on_stored(part: FilePart) -> None:
            if not hot and not self._are_too_many_open(files):
                stored = in_file(run, part)
                self._memory.put(key, stored, stored.size_bytes, hot=False)
                self._opened(key)

        on_drop = partial(self._forget, key)
        files.offer(Offer(place, run.view, row.check, on_stored, on_drop))

    def keep_index(self, place: Place, tail: Buffer) -> None:
        """Write the index of a segment to disk."""
        if self._files is not None:
            self._files.offer(Offer(place, tail, crc32c(tail)))

    def _are_too_many_open(self, files: DiskCache) -> bool:
        return files.open_files > 2 * self._max_open_files

    def _opened(self, key: PartKey) -> None:
        self._open[key] = None
        self._open.move_to_end(key)
        while len(self._open) > self._max_open_files:
            oldest, _ = self._open.popitem(last=False)
            self._forget(oldest)

    def _forget(self, key: PartKey) -> None:
        """Drop the cache's reference to a file; a reply that sends it keeps it open meanwhile."""
        self._open.pop(key, None)
        if isinstance(self._memory.get_nowait(key, promote=False), FileRun):
            self._memory.evict(key)


def _read_chunk(row: RunRow, body: memoryview) -> PreparedRun:
    try:
        return prepare_chunk(body, chunk_of(row))
    except CorruptBatches as error:
        raise DamagedFile(str(error)) from error


def _read_index(row: RunRow, partition: Partition, body: memoryview) -> SegmentIndex:
    try:
        return published_index(body, row, partition)
    except (CorruptObject, UnknownVersion) as error:
        # The gateway never writes an index of an unknown version to disk, so the file is damaged.
        raise DamagedFile(str(error)) from error
