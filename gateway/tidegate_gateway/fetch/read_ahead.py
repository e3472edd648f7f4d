"""Reads ahead of consumers that read old records.

A consumer asks for the next records only once it has the last ones, so each fetch would wait for
the store.  If the records after those of a fetch are not in memory, the gateway loads them while
the consumer is busy.  Errors of read-ahead are not answered: the fetch that needs the records reads
them again, and answers its own errors.

One GET can bring many chunks of a segment.  So read-ahead wants many chunks at once, and then none
until few are left.  It wants fewer if so many partitions are read that the cache would evict chunks
before their use.  Wanted runs are queued by object, so that one GET serves several partitions.  A
fetch that must read an object itself also loads the queued runs that its GET can bring.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from functools import partial

import trio

from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.objects.cost_sums import OTHERS

from ..cost.ledger import reading_for, who_reads
from ..upkeep.upkeep import Upkeep
from .cold_readers import ColdReaders
from .fetch_plan import Miss, RunKey
from .log_reader import Loaded, LogReader
from .read_groups import MAX_GROUP_BYTES
from .segment_rows import bytes_to_load, is_chunk, is_segment, rows_from, with_its_chunks

PARTITION_BYTES = 4 << 20
# The least read-ahead of a reader, for any number of readers: a few runs, so that not every run
# waits for the store.
LEAST_NEAR_BYTES = 256 << 10
CHUNKS_BYTES = MAX_GROUP_BYTES
MAX_BYTES = 32 << 20
# The memory for the read-ahead of all partitions.
ROOM_BYTES = 128 << 20
# The most runs that are read ahead in a partition.  Each small run can be a request to the store,
# and delays the event loop.
PARTITION_RUNS = 256
MAX_RUNS = 4096
# The most runs, of all its partitions, that one fetch looks at: about a microsecond each.
LOOKED_AT_RUNS = 1024
# Several workers: a large object occupies a worker for long, and the next runs should not wait for
# it.
WORKERS = 4
# The most that one worker loads at a time, except a single larger object.
STEP_BYTES = 1 << 20
STEP_RUNS = 64


class ReadAhead:
    """Loads runs into the reader's cache.

    max_bytes: the most bytes of wanted runs that are not loaded yet; 0 for no read-ahead.
      room_bytes: the memory for loaded runs that are not used yet.  upkeep: counts failed loads.
    """

    def __init__(
        self,
        reader: LogReader,
        *,
        max_bytes: int = MAX_BYTES,
        room_bytes: int = ROOM_BYTES,
        upkeep: Upkeep | None = None,
    ) -> None:
        self._reader = reader
        self._upkeep = upkeep or Upkeep()
        self._max_bytes = max_bytes
        self._room_bytes = room_bytes
        self._readers = ColdReaders()
        self._pending: set[RunKey] = set()
        self._pending_bytes = 0
        # Wanted runs by object number, in the order in which the objects were first wanted.
        self._queue: OrderedDict[int, list[Miss]] = OrderedDict()
        # The client that first wanted an object in the queue; it pays for the read.
        self._wanted_by: dict[int, str] = {}
        self._work = trio.Event()

    def want(self, places: Iterable[tuple[Partition, int]], reader: Hashable = None) -> None:
        """Queue the runs of each partition, from an offset on, that are not in memory.

        reader: the consumer that continues there.
        """
        places = list(places)
        left = LOOKED_AT_RUNS
        for partition, offset in places:
            left -= self._spend(partition, offset, reader, min(PARTITION_RUNS, left))
        left = LOOKED_AT_RUNS
        for partition, offset in places:
            is_full = self._pending_bytes >= self._max_bytes or len(self._pending) >= MAX_RUNS
            if is_full or left <= 0:
                return
            left -= self._want_of(partition, offset, min(PARTITION_RUNS, left))

    async def load(self, misses: Sequence[Miss]) -> Loaded:
        """Load the misses of a fetch, and the wanted runs that the same GETs can bring.

        Return only the misses of the fetch; see LogReader.load().
        """
        asked = {_key(row) for miss in misses for row in miss.rows}
        numbers = {number for number, _ in asked}
        queued = [each for number in sorted(numbers) for each in self._queue.get(number, ())]
        if not queued:
            return await self._reader.load(misses)
        taken = self._taken(asked, misses, queued)
        try:
            loaded = await self._reader.load(_together(misses, taken))
        finally:
            self._settle(taken.values())
        return {key: each for key, each in loaded.items() if key in asked}

    def _taken(
        self, asked: Set[RunKey], misses: Sequence[Miss], queued: Sequence[Miss]
    ) -> dict[RunKey, Miss]:
        """Take runs off the queue: those among the misses, and those that the same GETs bring."""
        others = [each for each in queued if _key(each.rows[0]) not in asked]
        keys = {_key(row) for row in self._reader.rows_along(misses, others)} | asked
        taken = {key: each for each in queued if (key := _key(each.rows[0])) in keys}
        for number in {number for number, _ in taken}:
            left = [each for each in self._queue[number] if _key(each.rows[0]) not in taken]
            if left:
                self._queue[number] = left
            else:
                del self._queue[number]
                self._wanted_by.pop(number, None)
        return taken

    def _spend(self, partition: Partition, offset: int, reader: Hashable, most: int) -> int:
        """Note a reader's offset, and evict the runs that all readers of the partition have passed.

        Look at `most` runs at most; return how many.  The offset is noted even if `most` is 0:
        otherwise the reader would soon count as stopped, and runs that it needs would be evicted.
        """
        now = trio.current_time()
        start, end = self._readers.note(partition.number, reader, offset, now)
        count = 0
        if start < end:
            for row in rows_from(partition, start, self._reader.index_of):
                # The reader may have got only a part of the last run before the offset.
                if row.next_offset >= end or count == most:
                    break
                self._reader.spend(row)
                count += 1
        return count

    def _want_of(self, partition: Partition, offset: int, most: int) -> int:
        """Queue the runs from an offset on; look at `most` runs at most, and return how many."""
        planned = looked_at = far_end = wanted_bytes = 0
        share, near = self._share(), self._near()
        for row in rows_from(partition, offset, self._reader.index_of):
            is_near = planned < near
            is_along = is_chunk(row) and planned + row.length <= far_end
            if looked_at == most or not (is_near or is_along):
                break
            looked_at += 1
            if self._is_missing(row):
                far = share if is_chunk(row) or is_segment(row) else 0
                # A reader at or before a segment's beginning will read the whole segment.
                is_whole = offset <= row.base_offset and wanted_bytes + row.length <= far
                if not self._want_row(partition, row, is_whole=is_whole):
                    break
                wanted_bytes += row.length
                if far and not far_end:
                    far_end = planned + far
            planned += row.length
        return looked_at

    def _is_missing(self, row: RunRow) -> bool:
        return _key(row) not in self._pending and not self._reader.is_in_memory(row)

    def _want_row(self, partition: Partition, row: RunRow, *, is_whole: bool) -> bool:
        """Queue a run; return False if there is no room.

        is_whole: queue a segment whole, if there is room, otherwise only its index.
        """
        room = self._max_bytes - self._pending_bytes
        if is_whole and is_segment(row) and bytes_to_load(whole := with_its_chunks(row)) <= room:
            row = whole
        size_bytes = bytes_to_load(row)
        if size_bytes > room:
            return False
        self._pending.add(_key(row))
        self._pending_bytes += size_bytes
        self._queue.setdefault(row.object_number, []).append(Miss(partition, [row]))
        self._wanted_by.setdefault(row.object_number, who_reads())
        self._work.set()
        return True

    def _share(self) -> int:
        """Return how many bytes of segments may be wanted of a partition at once.

        This is divided by partitions, not by readers: the readers of a partition mostly share these
        bytes.
        """
        return min(self._room_bytes // self._readers.partitions, CHUNKS_BYTES)

    def _near(self) -> int:
        """Return how many bytes may be wanted of a partition for one reader.

        A quarter of the room is shared by all readers.  Half of the room is left for whole objects,
        which stay until the runs of all their partitions are read.  The last quarter is for runs
        that are used late.
        """
        share = self._room_bytes // 4 // len(self._readers)
        return min(max(share, LEAST_NEAR_BYTES), PARTITION_BYTES)

    async def run(self) -> None:
        """Load wanted runs; forever."""
        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(self._load)

    async def _load(self) -> None:
        while True:
            while not (misses := self._step()):
                if self._work.is_set():  # other workers may already wait for a new event
                    self._work = trio.Event()
                await self._work.wait()
            try:
                await self._upkeep.attempt("read ahead", partial(self._reader.load, misses))
            finally:
                self._settle(misses)

    def _settle(self, misses: Iterable[Miss]) -> None:
        for miss in misses:
            row = miss.rows[0]
            self._pending.discard(_key(row))
            self._pending_bytes -= bytes_to_load(row)

    def _step(self) -> list[Miss]:
        """Take the next object off the queue, or several small ones."""
        misses: list[Miss] = []
        size_bytes = 0
        while self._queue and len(misses) < STEP_RUNS:
            number, wanted = next(iter(self._queue.items()))
            size_bytes += sum(bytes_to_load(each.rows[0]) for each in wanted)
            if misses and size_bytes > STEP_BYTES:
                break
            misses += wanted
            del self._queue[number]
            reading_for(self._wanted_by.pop(number, OTHERS))
        return misses


def _key(row: RunRow) -> RunKey:
    return row.object_number, row.position


def _together(misses: Sequence[Miss], taken: Mapping[RunKey, Miss]) -> list[Miss]:
    """Return the misses and the runs taken off the queue; of a run in both, the queue's row."""
    left = dict(taken)
    together: list[Miss] = []
    for miss in misses:
        rows = [left.pop(_key(row)).rows[0] if _key(row) in left else row for row in miss.rows]
        together.append(Miss(miss.partition, rows))
    return [*together, *left.values()]
