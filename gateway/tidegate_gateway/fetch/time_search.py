"""Finds records by time stamp, exact to the record.

The state knows the largest time stamp of each run, a batch header that of its batch; only the one
batch with the answer is walked (tidegate_protocol.record_walk), in pieces if it is compressed.  If
a header promises a time stamp that no record has, the run is skipped.  Records below the log start
are never found.
"""

from __future__ import annotations

import structlog
import trio

from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_protocol.batch_walk import walk_batch
from tidegate_protocol.batches import BatchHeader, read_header
from tidegate_protocol.errors import InvalidBatch
from tidegate_runtime.line_rates import STRANGERS_LINES

from ..work.fair_pool import ClientPool, ShouldStop
from .log_reader import LogReader
from .offsets_records import Found

MAX_DECOMPRESSED_BYTES = 128 << 20
MAX_RECORDS = 2_000_000
"""The most records of one batch that is searched: some seconds of work, which cannot be
interrupted.
"""
_ANY_TIME = -(1 << 63)  # below any time stamp but one
_ROWS_AT_ONCE = 1000

_log = structlog.get_logger("tidegate.time_search", STRANGERS_LINES)


async def find_first(
    reader: LogReader, pool: ClientPool, partition: Partition, timestamp: int, offset: int
) -> Found | None:
    """Return the first record from offset on that is not older than a time.

    Raises:
      NoSuchObject, StoreUnavailable, CorruptRun, UnknownVersion: as LogReader.parts and run_at.
    """
    while True:
        row = await _first_stamped(partition, timestamp, offset)
        if row is None:
            return None
        for part in await reader.parts(partition, row, offset):
            if part.max_timestamp >= timestamp:
                found = await _first_in_run(reader, pool, partition, part, timestamp, offset)
                if found is not None:
                    return found
        offset = row.next_offset


async def _first_in_run(
    reader: LogReader,
    pool: ClientPool,
    partition: Partition,
    row: RunRow,
    timestamp: int,
    offset: int,
) -> Found | None:
    run = await reader.run_at(partition, row)
    for index in range(run.find(offset), len(run)):
        batch = run.batch(index)
        header = read_header(batch)
        if header.max_timestamp >= timestamp and header.last_offset >= offset:
            found = await _search_batch(pool, batch, header, timestamp, offset)
            if found is not None:
                return found
    return None


async def find_largest(reader: LogReader, pool: ClientPool, partition: Partition) -> Found | None:
    """Return the first of the records with the largest time stamp; None if none has one.

    Raises:
      NoSuchObject, StoreUnavailable, CorruptRun, UnknownVersion: as LogReader.parts and run_at.
    """
    runs, offset = partition.runs, partition.log_start
    best: Found | None = None
    if len(runs) and runs[0].base_offset < offset:
        # The largest time stamp of this run may belong to a record below the log start.
        row = runs[0]
        parts = await reader.parts(partition, row, offset)
        best = await _largest_in_run(reader, pool, partition, parts[0], offset)
        later = max(parts[1:], key=_max_timestamp, default=None)
        if later is not None and later.max_timestamp > (best.timestamp if best else -1):
            timestamp = later.max_timestamp
            found = await _first_in_run(reader, pool, partition, later, timestamp, offset)
            best = found or best
        offset = row.next_offset
    largest = await _largest_stamped(partition, offset)
    if largest is not None and (best is None or largest.max_timestamp > best.timestamp):
        return await find_first(reader, pool, partition, largest.max_timestamp, largest.base_offset)
    return best


def _max_timestamp(row: RunRow) -> int:
    return row.max_timestamp


async def _largest_in_run(
    reader: LogReader, pool: ClientPool, partition: Partition, row: RunRow, offset: int
) -> Found | None:
    run = await reader.run_at(partition, row)
    best: Found | None = None
    for index in range(run.find(offset), len(run)):
        batch = run.batch(index)
        header = read_header(batch)
        if header.max_timestamp > (best.timestamp if best else -1):
            found = await _search_batch(pool, batch, header, None, offset)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
    return best


async def _search_batch(
    pool: ClientPool,
    batch: memoryview,
    header: BatchHeader,
    timestamp: int | None,
    offset: int,
) -> Found | None:
    """Search one batch for a time stamp, or for its largest one."""
    if not header.record_count:
        return None  # compaction left only its end
    whole = Found(max(header.base_offset, offset), header.max_timestamp)
    # Compaction may have removed the first record of the batch.
    has_all = header.record_count == header.last_offset_delta + 1
    if (header.is_log_append_time and has_all) or header.record_count > MAX_RECORDS:
        return whole
    try:
        return await pool.run(
            lambda should_stop: _search_records(batch, header, timestamp, offset, should_stop)
        )
    except InvalidBatch as error:
        # The client wrote a header that does not fit its records; its consumers will notice, too.
        _log.warning("the records of a batch cannot be read", offset=offset, error=str(error))
        return whole


def _search_records(
    batch: memoryview,
    header: BatchHeader,
    timestamp: int | None,
    offset: int,
    should_stop: ShouldStop,
) -> Found | None:
    """See _search_batch; the header's time stamp is that of all records of LogAppendTime."""
    above = -1 if timestamp is None else timestamp - 1
    walk = walk_batch(
        batch,
        header,
        max_bytes=MAX_DECOMPRESSED_BYTES,
        should_stop=should_stop,
        above=_ANY_TIME if header.is_log_append_time else above,
        least_delta=max(offset - header.base_offset, 0),
    )
    if walk.first_delta < 0:
        return None
    if header.is_log_append_time:
        return Found(header.base_offset + walk.first_delta, header.max_timestamp)
    if timestamp is None:
        return Found(header.base_offset + walk.max_delta, walk.max_timestamp)
    return Found(header.base_offset + walk.first_delta, walk.first_timestamp)


async def _first_stamped(partition: Partition, timestamp: int, offset: int) -> RunRow | None:
    """Return the first run from offset on whose largest time stamp reaches a time."""
    while True:
        rows = _rows_from(partition, offset)
        for row in rows:
            if row.max_timestamp >= timestamp:
                return row
        if not rows:
            return None
        offset = rows[-1].next_offset
        await trio.lowlevel.checkpoint()


async def _largest_stamped(partition: Partition, offset: int) -> RunRow | None:
    """Return the first run from offset on with the largest time stamp, if there is one >= 0."""
    best: RunRow | None = None
    while rows := _rows_from(partition, offset):
        for row in rows:
            if row.max_timestamp > (best.max_timestamp if best else -1):
                best = row
        offset = rows[-1].next_offset
        await trio.lowlevel.checkpoint()
    return best


def _rows_from(partition: Partition, offset: int) -> list[RunRow]:
    """Return the next rows from offset on; few enough not to delay the event loop."""
    runs = partition.runs
    first = runs.find(offset)
    last = min(first + _ROWS_AT_ONCE, len(runs))
    return [row for row in map(runs.__getitem__, range(first, last)) if row.next_offset > offset]
