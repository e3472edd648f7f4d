"""Reading ahead of consumers that are behind what is in memory.

A consumer asks for the next records only once it has the last; the store's latency would come on
top of each fetch.  So when the records behind those that a fetch was given are not in memory, they
are loaded while the consumer is busy.  A hint only: what goes wrong here is met again, and answered
for, by the fetch that needs it.

Chunks of a segment come many in one GET.  So of them more is wanted at a time, and then nothing
until little is left; unless so many partitions are read that memory would lose it before its use.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from itertools import islice

import trio

from tidegate_coordination.state.partitions import Partition
from tidegate_coordination.state.runs import RunRow

from .fetch_plan import Miss, RunKey
from .log_reader import LogReader
from .read_groups import MAX_GROUP_BYTES
from .segment_rows import bytes_to_load, is_chunk, rows_from

PARTITION_BYTES = 4 << 20
CHUNKS_BYTES = MAX_GROUP_BYTES
MAX_BYTES = 32 << 20
# How much of memory may hold what is read ahead, of all partitions.
ROOM_BYTES = 128 << 20
# A partition that nothing was read ahead of for so long has no reader any more.
ACTIVE_SECONDS = 10.0
# Of small runs: each is a request to the store, and a moment of everybody's time.
PARTITION_RUNS = 256
MAX_RUNS = 4096
# How many runs one fetch may look at, of all its partitions: about a microsecond each.
LOOKED_AT_RUNS = 1024
WORKERS = 2
# What one worker loads at a time: small, so that what is needed next comes first.
STEP_BYTES = MAX_GROUP_BYTES
STEP_RUNS = 64


class ReadAhead:
    """Loads runs into the reader's cache.

    max_bytes: of what is wanted and not loaded; 0 for no reading ahead.  room_bytes: of what is
    loaded and not used.
    """

    def __init__(
        self, reader: LogReader, *, max_bytes: int = MAX_BYTES, room_bytes: int = ROOM_BYTES
    ) -> None:
        self._reader = reader
        self._max_bytes = max_bytes
        self._room_bytes = room_bytes
        self._active: OrderedDict[int, float] = OrderedDict()
        self._pending: set[RunKey] = set()
        self._pending_bytes = 0
        self._queue: deque[Miss] = deque()
        self._work = trio.Event()

    def want(self, places: Iterable[tuple[Partition, int]]) -> None:
        """Load what is not in memory of each partition from an offset on."""
        left = LOOKED_AT_RUNS
        for partition, offset in places:
            is_full = self._pending_bytes >= self._max_bytes or len(self._pending) >= MAX_RUNS
            if is_full or left <= 0:
                return
            left -= self._want_of(partition, offset, min(PARTITION_RUNS, left))

    def _want_of(self, partition: Partition, offset: int, most: int) -> int:
        """Look at that many runs at most; return how many it were."""
        planned = looked_at = far_end = 0
        for row in rows_from(partition, offset, self._reader.index_of):
            is_near = planned < PARTITION_BYTES
            is_along = is_chunk(row) and planned + row.length <= far_end
            if looked_at == most or not (is_near or is_along):
                break
            looked_at += 1
            if self._is_missing(row):
                if not self._want_row(partition, row):
                    break
                if is_chunk(row) and not far_end:
                    far_end = planned + self._share(partition)
            planned += row.length
        return looked_at

    def _is_missing(self, row: RunRow) -> bool:
        key = (row.object_number, row.position)
        return key not in self._pending and not self._reader.is_in_memory(row)

    def _want_row(self, partition: Partition, row: RunRow) -> bool:
        """Queue a run; False if there is no room for it."""
        size_bytes = bytes_to_load(row)
        if self._pending_bytes + size_bytes > self._max_bytes:
            return False
        self._pending.add((row.object_number, row.position))
        self._pending_bytes += size_bytes
        self._queue.append(Miss(partition, [row]))
        self._work.set()
        return True

    def _share(self, partition: Partition) -> int:
        """Return how many bytes of chunks may be wanted of a partition at once."""
        now = trio.current_time()
        self._active[partition.number] = now
        self._active.move_to_end(partition.number)
        while next(iter(self._active.values())) < now - ACTIVE_SECONDS:
            self._active.popitem(last=False)
        return min(self._room_bytes // len(self._active), CHUNKS_BYTES)

    async def run(self) -> None:
        """Load what is wanted; forever."""
        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(self._load)

    async def _load(self) -> None:
        while True:
            while not (misses := self._step()):
                if self._work.is_set():  # by now the others may wait for a new one already
                    self._work = trio.Event()
                await self._work.wait()
            try:
                await self._reader.load(misses)
            finally:
                for miss in misses:
                    row = miss.rows[0]
                    self._pending.discard((row.object_number, row.position))
                    self._pending_bytes -= bytes_to_load(row)

    def _step(self) -> list[Miss]:
        size_bytes = count = 0
        for miss in self._queue:
            size_bytes += bytes_to_load(miss.rows[0])
            if count and (size_bytes > STEP_BYTES or count >= STEP_RUNS):
                break
            count += 1
        misses = list(islice(self._queue, count))
        for _ in misses:
            self._queue.popleft()
        return misses
