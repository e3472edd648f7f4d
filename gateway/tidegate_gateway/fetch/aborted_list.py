"""The aborted transactions that a read_committed consumer must know (KIP-98).  Pure.

The indexes of segments have the aborted transactions of their records.  The cluster state has those
of all other runs.
"""

from __future__ import annotations

from typing import TypeAlias

from tidegate_coordination.events.cluster import RUN_SEGMENT
from tidegate_coordination.state.records.partitions import Partition

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
    runs = partition.runs
    first = runs.find(start)
    if first < len(runs):
        start = max(start, runs[first].base_offset)
    if start >= end:
        return []
    found = partition.aborted.named(start, end) if partition.aborted else []
    of_segments = _of_segments(partition, start, end, index_of)
    return sorted(of_segments.union(found) if of_segments else found)


def _of_segments(
    partition: Partition, start: int, end: int, index_of: IndexOf
) -> set[AbortedProducer]:
    found: set[AbortedProducer] = set()
    runs = partition.runs
    for at in range(runs.find(start), len(runs)):
        row = runs[at]
        if row.base_offset >= end or not row.flags & RUN_SEGMENT:
            break  # segments come first; the state has the transactions of all runs from here on
        index = index_of(row)
        assert index is not None, "the answer has records of a segment, so its index was read"
        if index.aborted:
            concerned = index.aborted_between(start, end)
            found |= {(each.first_offset, each.producer_id) for each in concerned}
    return found
