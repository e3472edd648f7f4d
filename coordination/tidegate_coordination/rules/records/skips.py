"""Skipping runs that cannot be read: `tidegate topic repair` leaves a hole where they were.

Only the very runs that the command checked are removed.  If they are no longer live, since they
were merged or expired meanwhile, their records may be readable: then no run is skipped, and the
command checks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ...events.cluster import RunsSkipped, SkippedStretch
from ...state.records.runs import RunRow
from ..proposal import GATEWAYS, HEADS, OBJECTS, TOPICS, Decided, View
from .live_runs import are_live
from .segments import SEGMENTS


class Skip(Enum):
    """The result of a stretch."""

    SKIPPED = "skipped"
    NO_PARTITION = "its topic was deleted"
    CHANGED = "it was merged, or expired"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stretch of a partition, given by number: at least one run, neighbours as they were
    found.
    """

    partition: int
    runs: tuple[RunRow, ...]

    def event(self) -> SkippedStretch:
        """Return what is to be folded."""
        return SkippedStretch(self.partition, self.runs[0].base_offset, self.runs[-1].next_offset)


@dataclass(frozen=True, slots=True)
class SkipRuns:
    """Skip stretches, which do not overlap.  Answer: the result of each."""

    incarnation: int
    stretches: tuple[Unreadable, ...]
    reads: frozenset[str] = field(
        default=frozenset({TOPICS, HEADS, GATEWAYS, OBJECTS, SEGMENTS}), init=False
    )
    writes: frozenset[str] = field(default=frozenset({HEADS, OBJECTS, SEGMENTS}), init=False)

    def decide(self, view: View) -> Decided[tuple[Skip, ...]]:
        """See the class."""
        if not view.state.gateways.is_live(self.incarnation):
            return Decided((), (Skip.CHANGED,) * len(self.stretches))
        taken: set[tuple[int, int]] = set()
        answers = tuple(_judge(view, each, taken) for each in self.stretches)
        good = tuple(
            each.event()
            for each, answer in zip(self.stretches, answers, strict=True)
            if answer is Skip.SKIPPED
        )
        return Decided((RunsSkipped(self.incarnation, good),) if good else (), answers)


def _judge(view: View, stretch: Unreadable, taken: set[tuple[int, int]]) -> Skip:
    """taken: partition and base offset of the runs of earlier stretches; added to."""
    partition = view.state.partitions.get(stretch.partition)
    if partition is None:
        return Skip.NO_PARTITION
    start = partition.runs.index_of(stretch.runs[0].base_offset)
    if start is None or not are_live(partition, start, stretch.runs):
        return Skip.CHANGED
    places = {(stretch.partition, run.base_offset) for run in stretch.runs}
    if places & taken:
        return Skip.CHANGED
    taken |= places
    return Skip.SKIPPED
