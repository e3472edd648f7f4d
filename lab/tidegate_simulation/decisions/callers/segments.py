"""The pipeline, retention and collection: they plan from their own replica, which may be stale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tidegate_coordination.events.cluster import (
    CleanedPartition,
    Segment,
)
from tidegate_coordination.events.pipeline import PipelineReport
from tidegate_coordination.rules.housekeeping import ForgetObjects, MoveLogStarts, collectable
from tidegate_coordination.rules.pipeline_reports import ReportPipeline
from tidegate_coordination.rules.records.segments import (
    Publication,
    PublishCompaction,
    PublishSegments,
    SegmentUnit,
)
from tidegate_coordination.rules.records.skips import (
    Ending,
    EndSkips,
    Skip,
    SkipRuns,
    Unreadable,
)
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow

from ..decider import Decider
from .known import Caller, Known

GRACE_MS: Final = 20_000
_INDEX_AT: Final = 70
_MOST_PARENTS: Final = 6


def _neighbours(rows: list[RunRow], at: int, most: int) -> list[RunRow]:
    """Return at most so many rows from a place on, up to a gap in their offsets."""
    found = rows[at : at + 1]
    for row in rows[at + 1 : at + most]:
        if row.base_offset != found[-1].next_offset:
            break
        found.append(row)
    return found


class SegmentCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._attempts = 0
        self.operations = (
            (self.merge, 8),
            (self.compact, 2),
            (self.retain, 3),
            (self.collect, 3),
            (self.report, 1),
            (self.skip, 2),
            (self.end_skip, 2),
        )

    def _partition(self, decider: Decider) -> Partition | None:
        """Return any partition with runs, from a decider's replica."""
        found = [each for each in decider.state.partitions.values() if len(each.runs)]
        return self._rng.choice(found) if found else None

    def _stretch(self, partition: Partition) -> list[RunRow]:
        rows = [partition.runs[at] for at in range(len(partition.runs))]
        at = self._rng.randrange(len(rows))
        return _neighbours(rows, at, self._rng.randint(1, _MOST_PARENTS))

    def _segment(self, base: int, end: int) -> Segment:
        self._attempts += 1
        length = _INDEX_AT - 10
        now_ms = self._world.now_ms
        return Segment(self._attempts, 99, _INDEX_AT, length, base, end, now_ms, 7)

    def _unit(self, partition: Partition, removed: int = 0) -> SegmentUnit:
        rows = self._stretch(partition)
        base, end = rows[0].base_offset, rows[-1].next_offset
        cut = self._rng.randint(base + 1, end)
        ends = [cut, end] if cut < end else [end]
        starts = [base, *ends[:-1]]
        segments = tuple(map(self._segment, starts, ends))
        return SegmentUnit(partition.number, tuple(rows), segments, end - base, 5, removed)

    def merge(self, decider: Decider) -> None:
        """Publish segments; at times ones that leave an offset out, which must be refused."""
        partition = self._partition(decider)
        if partition is None:
            return
        units = [self._unit(partition) for _ in range(self._rng.randint(1, 2))]
        bad = self._rng.random() < 0.05
        if bad:
            first = units[0].segments[0].base_offset
            cut = self._segment(first, first)
            units[0] = replace(units[0], segments=(*units[0].segments[:-1], cut))

        def judged(answers: tuple[Publication, ...], is_told: bool) -> None:
            if bad and answers[0] is Publication.PUBLISHED:
                self._world.complain(f"{units[0]} is published, and is no whole")

        self._world.ask(decider, PublishSegments(decider.incarnation, tuple(units)), judged)

    def compact(self, decider: Decider) -> None:
        """Publish a round of compaction, or a part of one."""
        partition = self._partition(decider)
        if partition is None:
            return
        units = tuple(self._unit(partition, removed=1) for _ in range(self._rng.randint(0, 2)))
        end_offset = self._rng.randint(1, max(partition.next_offset, 1))
        end = CleanedPartition(partition.number, end_offset, 1_000)
        is_last = not units or self._rng.random() < 0.6
        proposal = PublishCompaction(
            decider.incarnation, partition.number, units, end if is_last else None
        )
        self._world.ask(decider, proposal)

    def retain(self, decider: Decider) -> None:
        """Cut partitions where a run ends."""
        partition = self._partition(decider)
        if partition is None:
            return
        row = self._rng.choice(self._stretch(partition))
        self._world.ask(decider, MoveLogStarts(((partition.number, row.next_offset),)))

    def collect(self, decider: Decider) -> None:
        """Forget dead objects; at times also any object, which may not be dead."""
        numbers = collectable(decider.state, GRACE_MS)
        if self._rng.random() < 0.1:
            numbers.append(self._rng.randrange(len(decider.state.objects) + 1))
        if numbers:
            self._world.ask(decider, ForgetObjects(tuple(dict.fromkeys(numbers))))

    def report(self, decider: Decider) -> None:
        """Report the work of a driver."""
        report = PipelineReport(1, 0, 1, 999, 2, 0, 1, "an error" * 50, {"late": 1})

        self._world.ask(decider, ReportPipeline(decider.incarnation, report))

    # -- repairs ------------------------------------------------------------------------------

    def skip(self, decider: Decider) -> None:
        """Skip runs."""
        partition = self._partition(decider)
        if partition is None or self._rng.random() < 0.5:
            return
        stretch = Unreadable(partition.number, tuple(self._stretch(partition)))
        place = partition.topic_id, partition.index

        def judged(answers: tuple[Skip, ...], is_told: bool) -> None:
            if answers[0] is Skip.SKIPPED:
                keeps = self._world.keeps_skips
                self._world.holes.skipped(place, stretch.runs, keeps=keeps)

        self._world.ask(decider, SkipRuns(decider.incarnation, (stretch,)), judged)

    def end_skip(self, decider: Decider) -> None:
        """Bring skipped runs back, or drop them for good."""
        partitions = decider.state.partitions.values()
        found = [each for each in partitions if each.kept is not None and len(each.kept)]
        if not found:
            return
        partition = self._rng.choice(found)
        rows = list(partition.kept or ())
        runs = _neighbours(rows, self._rng.randrange(len(rows)), self._rng.randint(1, 3))
        stretch = Unreadable(partition.number, tuple(runs))
        place = partition.topic_id, partition.index
        brings_back = self._rng.random() < 0.7
        proposal = EndSkips(
            decider.incarnation, (stretch,), brings_back, even_if_compacted=self._rng.random() < 0.5
        )

        def judged(answers: tuple[Any, ...], is_told: bool) -> None:
            if answers[0] is Ending.ENDED:
                self._world.holes.ended(place, stretch.runs, brings_back=brings_back)

        self._world.ask(decider, proposal, judged)
