"""The runs of a partition as a reader sees them: each segment as its chunks.  Pure.

A chunk is a row like any other run, made while reading.  So planning, loading and caching handle
chunks like other runs.  They know only one fact about segments: a segment's index must be in memory
before its chunks have rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tidegate_coordination.events.cluster import RUN_SEGMENT, RUN_WALKED
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.objects.corrupt import CorruptObject
from tidegate_storage.objects.segment_format import Chunk, SegmentIndex, read_tail
from tidegate_storage.stores.object_store import Buffer

# Flags that exist only in memory; they are above the eight bits of the cluster state's flags.
_RUN_CHUNK = 0x100
_RUN_WHOLE = 0x200

# The approximate size of a segment's index.
_INDEX_BYTES = 8 << 10

IndexOf: TypeAlias = Callable[[RunRow], SegmentIndex | None]
"""Returns the index of a segment that is in memory."""


def is_segment(row: RunRow) -> bool:
    """Return whether a row stands for a segment, whose index names its chunks."""
    return bool(row.flags & RUN_SEGMENT)


def is_chunk(row: RunRow) -> bool:
    """Return whether a row was made from a chunk."""
    return bool(row.flags & _RUN_CHUNK)


def with_its_chunks(row: RunRow) -> RunRow:
    """Return a segment's row that asks for its chunks, too, in the GET of its index."""
    return row._replace(flags=row.flags | _RUN_WHOLE)


def comes_whole(row: RunRow) -> bool:
    """Return whether with_its_chunks() made the row."""
    return bool(row.flags & _RUN_WHOLE)


def bytes_to_load(row: RunRow) -> int:
    """Return the bytes of a run or chunk, or of a segment's index."""
    if not row.flags & RUN_SEGMENT:
        return row.length
    return _INDEX_BYTES + (row.length if row.flags & _RUN_WHOLE else 0)


def rows_from(partition: Partition, offset: int, index_of: IndexOf) -> Iterator[RunRow]:
    """Yield the rows from the one that holds the offset on, with a row for each chunk of a segment.

    If the index of a segment is not in memory, yield the segment's own row, so that the caller
    loads the index.
    """
    runs = partition.runs
    at = runs.find(offset)
    while at < len(runs):
        row = runs[at]
        index = index_of(row) if row.flags & RUN_SEGMENT else None
        if index is None:
            yield row
        else:
            yield from chunk_rows(row, index, offset)
        at += 1


def chunk_rows(row: RunRow, index: SegmentIndex, offset: int) -> Iterator[RunRow]:
    """Yield the chunks of a segment from the one that holds the offset on."""
    chunks = index.chunks
    first = max(bisect_right(chunks, offset, key=_base_offset) - 1, 0)
    for at in range(first, len(chunks)):
        chunk = chunks[at]
        yield RunRow(
            chunk.base_offset,
            # Offsets of removed records after a segment belong to its last chunk.
            row.next_offset if at == len(chunks) - 1 else chunk.next_offset,
            row.object_number,
            chunk.position,
            chunk.length,
            chunk.max_timestamp,
            chunk.crc32c,
            _RUN_CHUNK | row.flags & RUN_WALKED,
        )


def published_index(tail: Buffer, row: RunRow, partition: Partition) -> SegmentIndex:
    """Read the index of a segment.

    Raises:
      CorruptObject: the bytes differ from the published index.
    """
    index = read_tail(tail, row.position)
    what = (index.topic_id, index.partition, index.base_offset, index.check)
    if what != (partition.topic_id, partition.index, row.base_offset, row.check):
        raise CorruptObject("its index is not the one that was published")
    return index


def _base_offset(chunk: Chunk) -> int:
    return chunk.base_offset
