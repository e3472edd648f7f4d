"""Finds records by time stamp, exact to the record.

The state has the largest time stamp of each run, and the index of a segment has that of each chunk.
In a walked run (RUN_WALKED) the header of each batch has the largest time stamp of its records.
There only the batch with the answer is walked (tidegate_protocol.record_walk), in pieces if it is
compressed.  Other headers may have any time, so all batches up to the answer are walked, in one job
of a thread.  A run may have a larger time stamp than all its records; the search then continues in
other runs.  Records below the log start are never found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import structlog
import trio

from tidegate_coordination.events.cluster import RUN_LOG_APPEND_TIME, RUN_WALKED
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
MAX_LOOKS = 100
"""The most runs in which one search looks for the newest record: each look may read an object."""
_ANY_TIME = -(1 << 63)  # below all time stamps but the least one
_NOTHING = Found(-1, -1)
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
    timestamp: int | None,
    offset: int,
) -> Found | None:
    """Return a run's first record that is not older than a time; for None, its newest record."""
    run = await reader.run_at(partition, row)
    batches = [run.batch(index) for index in range(run.find(offset), len(run))]
    is_true = bool(row.flags & (RUN_WALKED | RUN_LOG_APPEND_TIME))
    return await pool.run(
        lambda should_stop: _search(batches, timestamp, offset, should_stop, is_true=is_true),
        sum(map(len, batches)),
    )


async def find_largest(reader: LogReader, pool: ClientPool, partition: Partition) -> Found | None:
    """Return the first record with the largest time stamp; None if no record has one.

    If more than MAX_LOOKS runs have a larger time stamp than their records, this may return a
    record with a smaller one.

    Raises:
      NoSuchObject, StoreUnavailable, CorruptRun, UnknownVersion: as LogReader.parts and run_at.
    """
    looked: set[tuple[int, int]] = set()
    best = _NOTHING
    while len(looked) < MAX_LOOKS:
        row = await _largest_stamped(partition, best, looked)
        if row is None:
            break
        looked.add(_place(row))
        parts = await reader.parts(partition, row, partition.log_start)
        best = await _largest_in_parts(reader, pool, partition, parts, best)
        if best.timestamp >= row.max_timestamp:
            break
    return best if best is not _NOTHING else None


async def _largest_in_parts(
    reader: LogReader,
    pool: ClientPool,
    partition: Partition,
    parts: Sequence[RunRow],
    best: Found,
) -> Found:
    """Return the first of the newest records of a run's parts if it beats `best`; otherwise `best`.

    The time of a part may be above that of its records: a header may have any time, merges give all
    chunks of a mirrored run its largest time, and the newest record may be below the log start.
    """
    for part in sorted(parts, key=_max_timestamp, reverse=True):
        if _beats(part.max_timestamp, part.base_offset, best):
            offset = partition.log_start
            found = await _first_in_run(reader, pool, partition, part, None, offset)
            if found is not None and _beats(found.timestamp, found.offset, best):
                best = found
    return best


def _beats(timestamp: int, offset: int, best: Found) -> bool:
    """Return whether a record with this time at this offset beats the newest one so far."""
    return timestamp > best.timestamp or (timestamp == best.timestamp and offset < best.offset)


def _max_timestamp(row: RunRow) -> int:
    return row.max_timestamp


def _place(row: RunRow) -> tuple[int, int]:
    return row.base_offset, row.next_offset


def _search(
    batches: Sequence[memoryview],
    timestamp: int | None,
    offset: int,
    should_stop: ShouldStop,
    *,
    is_true: bool,
) -> Found | None:
    """Return the first record that is not older than a time; for None, the first newest record.

    is_true: the headers have the largest time stamps.  should_stop: returns whether no request
    waits for the result any more.
    """
    best: Found | None = None
    for batch in batches:
        header = read_header(batch)
        least = timestamp if timestamp is not None else (best.timestamp + 1 if best else 0)
        if header.last_offset < offset or (is_true and header.max_timestamp < least):
            continue
        found = _search_batch(batch, header, timestamp, offset, should_stop)
        if should_stop():
            return None
        if found is not None and found.timestamp >= least:
            best = found
            if timestamp is not None:
                break
    return best


def _search_batch(
    batch: memoryview,
    header: BatchHeader,
    timestamp: int | None,
    offset: int,
    should_stop: ShouldStop,
) -> Found | None:
    """Search one batch for a time stamp; for None, for its largest time stamp."""
    if not header.record_count:
        return None  # compaction has removed all records of the batch
    whole = Found(max(header.base_offset, offset), header.max_timestamp)
    # Compaction may have removed the first record of the batch.
    has_all = header.record_count == header.last_offset_delta + 1
    if (header.is_log_append_time and has_all) or header.record_count > MAX_RECORDS:
        return whole
    try:
        return _search_records(batch, header, timestamp, offset, should_stop)
    except InvalidBatch as error:
        # A producer wrote a header that does not fit the records; consumers will get this error,
        # too.
        if not should_stop():
            _log.warning("the records of a batch cannot be read", offset=offset, error=str(error))
        return whole


def _search_records(
    batch: memoryview,
    header: BatchHeader,
    timestamp: int | None,
    offset: int,
    should_stop: ShouldStop,
) -> Found | None:
    """See _search_batch.  With LogAppendTime all records have the header's time stamp."""
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
    """Return the first run, from offset on, whose largest time stamp reaches a time."""
    while True:
        rows = _rows_from(partition, offset)
        for row in rows:
            if row.max_timestamp >= timestamp:
                return row
        if not rows:
            return None
        offset = rows[-1].next_offset
        await trio.lowlevel.checkpoint()


async def _largest_stamped(
    partition: Partition, best: Found, looked: Collection[tuple[int, int]]
) -> RunRow | None:
    """Return the first run with the largest time stamp if it may hold a newer record than `best`.

    looked: the places of runs to skip.
    """
    largest: RunRow | None = None
    offset = partition.log_start
    while rows := _rows_from(partition, offset):
        for row in rows:
            least = largest.max_timestamp if largest else -1
            is_more = row.max_timestamp > least and _beats(row.max_timestamp, row.base_offset, best)
            if is_more and _place(row) not in looked:
                largest = row
        offset = rows[-1].next_offset
        await trio.lowlevel.checkpoint()
    return largest


def _rows_from(partition: Partition, offset: int) -> list[RunRow]:
    """Return the next rows from offset on, so few that they do not delay the event loop."""
    runs = partition.runs
    first = runs.find(offset)
    last = min(first + _ROWS_AT_ONCE, len(runs))
    return [row for row in map(runs.__getitem__, range(first, last)) if row.next_offset > offset]
