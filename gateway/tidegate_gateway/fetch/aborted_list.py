"""The aborted transactions that a read_committed consumer must know (KIP-98).  Pure.

The indexes of segments have the aborted transactions of their records.  The cluster state has those
of all other runs.  While a skipped run is kept, the state has also those of segments above it.
Compaction may have removed their markers, so for a segment only its index counts.
"""

from __future__ import annotations

from typing import TypeAlias

from tidegate_coordination.events.cluster import RUN_SEGMENT
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow

from .segment_rows import IndexOf

AbortedProducer: TypeAlias = tuple[int, int]
"""First offset and producer id."""


def aborted_between(
    partition: Partition, start: int, end: int, index_of: IndexOf
) -> list[AbortedProducer]:
    """Return the transactions that concern records in [start, end), by first offset.

    index_of: must return the index of every segment in this range: the answer has records only of
    such segments.  A transaction that ended below `start`, or in a hole there, must not be in the
    answer: the consumer would drop later records of its producer.
    """
    if start >= end:
        return []
    runs = partition.runs
    at, stop = runs.find(start), runs.index_from(end)
    found: set[AbortedProducer] = set()
    while at < stop:
        row = runs[at]
        start = max(start, row.base_offset)
        if row.flags & RUN_SEGMENT:
            found |= _of_segment(row, start, end, index_of)
            at += 1
        else:
            at = runs.first_with(RUN_SEGMENT, at, stop)
            upto = min(runs[at - 1].next_offset, end)
            found.update(partition.aborted.named(start, upto) if partition.aborted else ())
    return sorted(found)


def _of_segment(row: RunRow, start: int, end: int, index_of: IndexOf) -> set[AbortedProducer]:
    index = index_of(row)
    assert index is not None, "the answer has records of a segment, so its index was read"
    concerned = index.aborted_between(start, end) if index.aborted else ()
    return {(each.first_offset, each.producer_id) for each in concerned}
