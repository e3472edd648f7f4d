"""Readers of committed records get the right aborted transactions: invariant 12.

The state and the indexes of segments must name the aborted transactions of a naive replay:

- Each named transaction is in the naive set, with the same first and last offset.
- The state names each aborted transaction that reaches above the merged runs.
- A segment that holds records of an aborted transaction names the transaction.
- If an index names a transaction, its marker can still be read, or an operator skipped the marker.
  Without the marker a reader would drop later records of the producer; at a hole, answers end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import error as StructError

from tidegate_coordination.events.cluster import RUN_FINAL, RUN_SEGMENT
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.objects.corrupt import CorruptObject
from tidegate_storage.objects.segment_format import HEADER_BYTES, read_segment

from .batch_walk import walk
from .partition_transactions import AbortedOne, PartitionTransactions


@dataclass(frozen=True, slots=True)
class _SegmentFacts:
    """named: by the index.  data: (offset, producer id) of transactional batches with records.

    markers: their offsets.
    """

    named: frozenset[AbortedOne]
    data: tuple[tuple[int, int], ...]
    markers: frozenset[int]

    def has_records_of(self, transaction: AbortedOne) -> bool:
        """Return whether records of an aborted transaction are in the segment."""
        producer_id, first, last = transaction
        return any(pid == producer_id and first <= offset < last for offset, pid in self.data)


def _lacks(offset: int, markers: set[int], rows: list[RunRow]) -> bool:
    """Return whether a marker is missing outside of holes; mirrored runs hold them as batches."""
    return offset not in markers and any(
        row.base_offset <= offset < row.next_offset and not row.flags & RUN_FINAL for row in rows
    )


class AbortedWatch:
    """See the module's head.  body_of: returns an object that was stored, or None."""

    def __init__(
        self,
        state: ClusterState,
        broken: Callable[[int, str], None],
        body_of: Callable[[str], bytes | None],
    ) -> None:
        self._state = state
        self._broken = broken
        self._body_of = body_of
        self._segments: dict[int, _SegmentFacts | None] = {}

    def check(self, partition: Partition, expected: PartitionTransactions) -> None:
        """Check a partition after an entry."""
        rows = [partition.runs[at] for at in range(len(partition.runs))]
        segments = [row for row in rows if row.flags & RUN_SEGMENT]
        where = f"partition {partition.number}"
        aborted = partition.aborted
        named = [aborted[at] for at in range(len(aborted))] if aborted is not None else []
        kept = {AbortedOne(*each[:3]) for each in named}
        known = set(expected.aborted.values())
        if strangers := kept - known:
            self._broken(12, f"{where}: the state names {strangers} as aborted")
        merged_to = next((r.base_offset for r in rows if not r.flags & RUN_SEGMENT), None)
        unmerged = partition.next_offset if merged_to is None else merged_to
        lacking = {each for each in known - kept if each.last >= max(unmerged, partition.log_start)}
        if lacking:
            self._broken(12, f"{where}: the state does not name {lacking}, merged to {unmerged}")
        if known or any(each is not None and each.named for each in map(self._facts, segments)):
            live = {each for each in known if each.last >= partition.log_start}
            self._check_segments(where, segments, rows, (known, live))

    def _check_segments(
        self,
        where: str,
        segments: list[RunRow],
        rows: list[RunRow],
        expected: tuple[set[AbortedOne], set[AbortedOne]],
    ) -> None:
        known, live = expected
        facts = [(row, found) for row in segments if (found := self._facts(row)) is not None]
        readable = {row.base_offset for row in rows if row.is_marker}
        readable = readable.union(*(found.markers for _, found in facts))
        is_whole = len(facts) == len(segments)
        for row, found in facts:
            at = f"{where}, segment {row.base_offset} to {row.next_offset}"
            if strangers := found.named - known:
                self._broken(12, f"{at} names {set(strangers)} as aborted")
            ends = {each: each.last for each in found.named & live}
            unended = {each for each, last in ends.items() if _lacks(last, readable, rows)}
            if is_whole and unended:
                self._broken(12, f"{at} names {unended}, whose markers are gone")
            for each in live - found.named:
                if found.has_records_of(each):
                    self._broken(12, f"{at} has records of {each}, and does not name it")

    def _facts(self, row: RunRow) -> _SegmentFacts | None:
        """Return the facts of a segment; None if the first attempt could not read it."""
        number = row.object_number
        if number not in self._segments:
            self._segments[number] = self._read(row)
        return self._segments[number]

    def _read(self, row: RunRow) -> _SegmentFacts | None:
        body = self._body_of(object_key(self._state, self._state.objects.name(row.object_number)))
        if body is None:
            return None
        try:
            index = read_segment(body)
            batches = list(walk(body, HEADER_BYTES, HEADER_BYTES + row.length))
        except (CorruptObject, StructError, IndexError):
            return None
        data = [
            (each.offset, each.producer_id)
            for each in batches
            if each.is_transactional and not each.is_control and each.records
        ]
        return _SegmentFacts(
            frozenset(AbortedOne(*each) for each in index.aborted),
            tuple(data),
            frozenset(each.offset for each in batches if each.is_control),
        )
