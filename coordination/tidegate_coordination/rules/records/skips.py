"""Skipping runs that cannot be read: `tidegate topic repair` leaves a hole where they were.

Only the runs that the command checked are removed.  If they are no longer live, because they were
merged or expired meanwhile, their records may be readable.  Then no run is skipped, and the command
checks again.
Runs of inlined objects (decision 49) are never skipped.

The runs are kept (state/records/kept.py), so that they can be brought back into the hole.  In a
compacted topic this may show an old value of a key again: a round of compaction that did not see
the value may have removed the tombstone after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ...events.cluster import RunsSkipped, SkippedStretch, SkipsEnded
from ...state.records.runs import RunRow
from ..cluster_settings import ClusterSettings
from ..proposal import GATEWAYS, HEADS, OBJECTS, TOPICS, Decided, View
from .segments import SEGMENTS

_READS = frozenset({TOPICS, HEADS, GATEWAYS, OBJECTS, SEGMENTS})
_WRITES = frozenset({HEADS, OBJECTS, SEGMENTS})


class Skip(Enum):
    """The result of a stretch."""

    SKIPPED = "skipped"
    NO_PARTITION = "its topic was deleted"
    CHANGED = "it was merged, or expired"
    INLINED = "its bytes are in the metadata log, so no object of the store is missing"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Neighbouring runs of a partition, as the command found them; at least one.

    EndSkips names kept runs in the same way.
    """

    partition: int
    runs: tuple[RunRow, ...]

    def event(self) -> SkippedStretch:
        """Return this part of the event."""
        return SkippedStretch(self.partition, self.runs[0].base_offset, self.runs[-1].next_offset)


@dataclass(frozen=True, slots=True)
class SkipRuns:
    """Skip stretches, which do not overlap.  Answer: the result of each."""

    incarnation: int
    stretches: tuple[Unreadable, ...]
    reads: frozenset[str] = field(default=_READS, init=False)
    writes: frozenset[str] = field(default=_WRITES, init=False)

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
    """Return the result of a stretch.

    taken: partition and base offset of the runs of earlier stretches; this one's are added.
    """
    partition = view.state.partitions.get(stretch.partition)
    if partition is None:
        return Skip.NO_PARTITION
    start = partition.runs.index_of(stretch.runs[0].base_offset)
    if start is None or not partition.runs.has_at(start, stretch.runs):
        return Skip.CHANGED
    inlined = view.state.objects.inlined
    if any(run.object_number in inlined and not run.is_marker for run in stretch.runs):
        return Skip.INLINED
    return Skip.SKIPPED if _are_new(stretch, taken) else Skip.CHANGED


def _are_new(stretch: Unreadable, taken: set[tuple[int, int]]) -> bool:
    """Return whether no earlier stretch has one of its runs; if so, note them."""
    places = {(stretch.partition, run.base_offset) for run in stretch.runs}
    if places & taken:
        return False
    taken |= places
    return True


class Ending(Enum):
    """The result of a kept stretch."""

    ENDED = "brought back, or given up"
    NO_PARTITION = "its topic was deleted"
    CHANGED = "it is not kept any more"
    COMPACTED = "its topic is compacted"


@dataclass(frozen=True, slots=True)
class EndSkips:
    """Bring kept stretches back, or give them up; they do not overlap.  Answer: each one's result.

    brings_back: otherwise they are given up.  even_if_compacted: bring them back although the
    partition was compacted, or is perhaps being compacted; see the module's head.
    """

    incarnation: int
    stretches: tuple[Unreadable, ...]
    brings_back: bool
    even_if_compacted: bool = False
    reads: frozenset[str] = field(default=_READS, init=False)
    writes: frozenset[str] = field(default=_WRITES, init=False)

    def decide(self, view: View) -> Decided[tuple[Ending, ...]]:
        """See the class.  Below KEPT_SKIPS no run is kept."""
        if not view.state.gateways.is_live(self.incarnation):
            return Decided((), (Ending.CHANGED,) * len(self.stretches))
        settings = ClusterSettings(view.state)
        taken: set[tuple[int, int]] = set()
        answers = tuple(self._judge(view, each, settings, taken) for each in self.stretches)
        good = tuple(
            each.event()
            for each, answer in zip(self.stretches, answers, strict=True)
            if answer is Ending.ENDED
        )
        event = SkipsEnded(self.incarnation, good, self.brings_back)
        return Decided((event,) if good else (), answers)

    def _judge(
        self,
        view: View,
        stretch: Unreadable,
        settings: ClusterSettings,
        taken: set[tuple[int, int]],
    ) -> Ending:
        partition = view.state.partitions.get(stretch.partition)
        if partition is None:
            return Ending.NO_PARTITION
        if partition.kept is None or not partition.kept.has(stretch.runs):
            return Ending.CHANGED
        topic = view.state.topics.get(partition.topic_id)
        may_be_compacted = bool(partition.cleanings) or settings.of(topic).is_compacted
        if self.brings_back and may_be_compacted and not self.even_if_compacted:
            return Ending.COMPACTED
        return Ending.ENDED if _are_new(stretch, taken) else Ending.CHANGED
