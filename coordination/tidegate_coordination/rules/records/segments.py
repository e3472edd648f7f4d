"""Publication of segments: merged or compacted segments replace the runs they were made from.

A unit is published only if its parents are still live runs, unchanged since the plan.  Otherwise
the unit is dropped, and its driver plans again.  So two drivers, a task that ran twice, and a
driver that was suspended for an hour are harmless.  The objects of a dropped unit are orphans
(docs/architecture.md, "The pipeline").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from ...events.cluster import (
    CleanedPartition,
    PartitionsCleaned,
    Segment,
    SegmentsOfPartition,
    SegmentsPublished,
)
from ...state.records.cleanings import cleaned_to
from ...state.records.partitions import Partition
from ...state.records.runs import RunRow
from ..proposal import GATEWAYS, HEADS, OBJECTS, TOPICS, Decided, View

SEGMENTS = "segments"
MAX_U32 = (1 << 32) - 1
_READS = frozenset({TOPICS, HEADS, GATEWAYS, OBJECTS, SEGMENTS})
_WRITES = frozenset({OBJECTS, SEGMENTS})


class Publication(Enum):
    """The result of a unit."""

    PUBLISHED = "published"
    NO_PARTITION = "its topic was deleted"
    CUT = "its first records fell below the log start"
    CHANGED = "what it was made from is live no more"
    NOT_COMPACTED = "its topic is not compacted any more"
    INVALID = "its segments do not stand for its parents"


@dataclass(frozen=True, slots=True)
class SegmentUnit:
    """Segments for a stretch of a partition, and the runs they were made from.

    parents: neighbours, as the plan found them, one at least. records, digest: the number of the
    written records, and the digest of their batches.  removed: how many records compaction removed.
    """

    partition: int
    parents: tuple[RunRow, ...]
    segments: tuple[Segment, ...]
    records: int
    digest: int
    removed: int = 0

    def event(self) -> SegmentsOfPartition:
        """Return this part of the event."""
        return SegmentsOfPartition(
            self.partition,
            self.parents[0].base_offset,
            self.parents[-1].next_offset,
            self.segments,
            self.records,
            self.digest,
            self.removed,
        )


@dataclass(frozen=True, slots=True)
class PublishSegments:
    """Publish units, which do not overlap.  Answer: the result of each.

    incarnation: the driver's that wrote the segments; once it has ended, no unit is published.
    """

    incarnation: int
    units: tuple[SegmentUnit, ...]
    reads: frozenset[str] = field(default=_READS, init=False)
    writes: frozenset[str] = field(default=_WRITES, init=False)

    def decide(self, view: View) -> Decided[tuple[Publication, ...]]:
        """See the class."""
        if not view.state.gateways.is_live(self.incarnation):
            return Decided((), (Publication.CHANGED,) * len(self.units))
        taken: set[tuple[int, int]] = set()
        answers = tuple(_judge(view, each, taken) for each in self.units)
        good = tuple(
            unit.event()
            for unit, answer in zip(self.units, answers, strict=True)
            if answer is Publication.PUBLISHED
        )
        return Decided((SegmentsPublished(self.incarnation, good),) if good else (), answers)


@dataclass(frozen=True, slots=True)
class PublishCompaction:
    """Publish a round of compaction in one partition, or a part of it.  Answer: its result.

    stretches: the rewritten ones; all other runs below the round's end need no change.  Each
    stretch may be published by itself: a removed record has a newer record of its key after it, or
    is a tombstone of earlier rounds, or is part of an aborted transaction.  end: the end of the
    round, which counts only if all stretches were accepted; None for a part that is not the last.
    """

    incarnation: int
    partition: int
    stretches: tuple[SegmentUnit, ...]
    end: CleanedPartition | None
    reads: frozenset[str] = field(default=_READS, init=False)
    writes: frozenset[str] = field(default=_WRITES, init=False)

    def decide(self, view: View) -> Decided[Publication]:
        """See the class."""
        partition = view.state.partitions.get(self.partition)
        if not view.state.gateways.is_live(self.incarnation):
            return Decided((), Publication.CHANGED)
        if partition is None:
            return Decided((), Publication.NO_PARTITION)
        taken: set[tuple[int, int]] = set()
        answers = [_judge(view, each, taken) for each in self.stretches]
        events: list[SegmentsPublished | PartitionsCleaned] = []
        good = [
            unit.event()
            for unit, answer in zip(self.stretches, answers, strict=True)
            if answer is Publication.PUBLISHED
        ]
        if good:
            events.append(SegmentsPublished(self.incarnation, tuple(good)))
        answer = self._answer(partition, answers)
        if answer is Publication.PUBLISHED and self.end is not None:
            events.append(PartitionsCleaned((self.end,)))
        return Decided(tuple(events), answer)

    def _answer(self, partition: Partition, answers: list[Publication]) -> Publication:
        for unit, answer in zip(self.stretches, answers, strict=True):
            is_gone = unit.parents[-1].next_offset <= partition.log_start
            if answer is not Publication.PUBLISHED and not is_gone:
                return answer
        return Publication.PUBLISHED if self._is_new(partition) else Publication.CHANGED

    def _is_new(self, partition: Partition) -> bool:
        if self.end is None:
            return True
        last = cleaned_to(partition.cleanings)
        is_fit = 0 <= self.end.retention_ms < 1 << 63
        return is_fit and last < self.end.end_offset <= partition.next_offset


def _judge(view: View, unit: SegmentUnit, taken: set[tuple[int, int]]) -> Publication:
    """Return the result of a unit.

    taken: partition and base offset of the parents of earlier units; this unit's are added.
    """
    partition = view.state.partitions.get(unit.partition)
    if partition is None:
        return Publication.NO_PARTITION
    start = partition.runs.index_of(unit.parents[0].base_offset)
    if start is None:
        is_below = unit.parents[0].next_offset <= partition.log_start
        return Publication.CUT if is_below else Publication.CHANGED
    if not partition.runs.has_at(start, unit.parents):
        return Publication.CHANGED
    parents = {(unit.partition, parent.base_offset) for parent in unit.parents}
    if parents & taken:
        return Publication.CHANGED
    if not _is_sound(unit):
        return Publication.INVALID
    taken |= parents
    return Publication.PUBLISHED


def _is_sound(unit: SegmentUnit) -> bool:
    """Return whether the fold can take the segments: executors' results are not trusted."""
    if any(right.base_offset != left.next_offset for left, right in pairwise(unit.parents)):
        return False  # readers of committed records must notice a hole
    numbers = (unit.digest, unit.records, unit.removed)
    if not all(0 <= number < 1 << 64 for number in numbers):
        return False
    at = unit.parents[0].base_offset
    for segment in unit.segments:
        if segment.base_offset != at or segment.next_offset <= at or not _fits(segment):
            return False
        at = segment.next_offset
    return at == unit.parents[-1].next_offset


def _fits(segment: Segment) -> bool:
    """Return whether its numbers fit the columns of the state."""
    small = (segment.attempt, segment.size_bytes, segment.position, segment.length, segment.check)
    is_in_place = segment.position < segment.size_bytes and segment.length > 0
    return (
        all(0 <= number <= MAX_U32 for number in small)
        and is_in_place
        and -1 <= segment.max_timestamp < 1 << 63
    )
