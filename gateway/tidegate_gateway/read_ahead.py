"""Reading ahead of consumers that are behind what is in memory.

A consumer asks for the next records only once it has the last; the store's latency would come on
top of each fetch.  So when the records behind those that a fetch was given are not in memory, they
are loaded while the consumer is busy.  A hint only: what goes wrong here is met again, and answered
for, by the fetch that needs it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

import trio

from tidegate_coordination.state.partitions import Partition

from .fetch_plan import Miss, RunKey
from .log_reader import LogReader
from .segment_rows import bytes_to_load, rows_from

PARTITION_BYTES = 4 << 20
MAX_BYTES = 32 << 20
# Of small runs: each is a request to the store, and a moment of everybody's time.
PARTITION_RUNS = 256
MAX_RUNS = 4096
# How many runs one fetch may look at, of all its partitions: about a microsecond each.
LOOKED_AT_RUNS = 1024
WORKERS = 2
# What one worker loads at a time: small, so that what is needed next comes first.
STEP_BYTES = 8 << 20
STEP_RUNS = 64


class ReadAhead:
    """Loads runs into the reader's cache.

    max_bytes: of what is wanted and not loaded; 0 for no reading ahead.
    """

    def __init__(self, reader: LogReader, *, max_bytes: int = MAX_BYTES) -> None:
        self._reader = reader
        self._max_bytes = max_bytes
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
        planned = looked_at = 0
        for row in rows_from(partition, offset, self._reader.index_of):
            if looked_at == most or planned >= PARTITION_BYTES:
                break
            looked_at += 1
            key = (row.object_number, row.position)
            if key not in self._pending and not self._reader.is_in_memory(row):
                size_bytes = bytes_to_load(row)
                if self._pending_bytes + size_bytes > self._max_bytes:
                    break
                self._pending.add(key)
                self._pending_bytes += size_bytes
                self._queue.append(Miss(partition, [row]))
                self._work.set()
            planned += row.length
        return looked_at

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
            if size_bytes >= STEP_BYTES or count >= STEP_RUNS:
                break
            size_bytes += bytes_to_load(miss.rows[0])
            count += 1
        misses = list(islice(self._queue, count))
        for _ in misses:
            self._queue.popleft()
        return misses
