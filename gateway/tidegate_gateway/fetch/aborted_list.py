"""The aborted transactions that a reader of committed records must know (KIP-98).  Pure.

The cluster state knows those of runs in no segment yet; the indexes of segments know the others.
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

    Of segments only those with an index in memory count: records of no other are in the answer.
    A transaction that ended below `start`, or in a hole there, must not be named: the reader would
    drop later records of its producer.
    """
    runs = partition.runs
    first = runs.find(start)
    if first < len(runs):
        start = max(start, runs[first].base_offset)
    if start >= end:
        return []
    found: set[AbortedProducer] = set()
    if partition.aborted:
        found |= {(row.first, row.producer_id) for row in partition.aborted.between(start, end)}
    for at in range(first, len(runs)):
        row = runs[at]
        if row.base_offset >= end or not row.flags & RUN_SEGMENT:
            break  # segments come before all other runs, or the state still knows theirs
        index = index_of(row)
        for each in index.aborted if index is not None else ():
            if each.last_offset >= start and each.first_offset < end:
                found.add((each.first_offset, each.producer_id))
    return sorted(found)
