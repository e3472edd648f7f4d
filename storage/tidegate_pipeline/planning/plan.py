"""Plans the next merge or compaction from the cluster state.  Pure.

A unit of a merge is a stretch of small neighbours: runs of WAL objects older than rest_ms, and
segments that are not full yet.  Younger runs are skipped, since gateways have them in memory for
consumers of the tail.  A unit is merged if it makes a full segment, if it holds enough parts, or if
its oldest part has waited for patience_ms.  A segment is merged again only if the new bytes are at
least half of its own, so each byte is copied a few times at most, even if a partition grows
slowly.  No unit spans a hole that an operator's skip left.  Compaction: see compact_plan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from math import inf

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.events.cluster import (
    RUN_FINAL,
    RUN_HEADED,
    RUN_LOG_APPEND_TIME,
    RUN_SEGMENT,
    RUN_WALKED,
)
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.cleanings import cleaned_to
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_coordination.state.topics import Topic

from ..tasks.work import CompactionRules, MergeUnit, Source
from .compact_plan import compaction_of
from .limits import Limits, MergeSettings, limits_of
from .pauses import Stretch, Work

MAX_PARTS = 5_000
# Bounds of one round: further units wait for the next.
MAX_UNITS = 2_000
MAX_RUNS = 200_000
MAX_BYTES = 4 << 30
# Runs of one partition, beside its segments, that one round considers.
MAX_LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True)
class PlannedUnit:
    """A unit, and the rows it was planned from.  partition: its number in the state."""

    unit: MergeUnit
    partition: int
    parents: tuple[RunRow, ...]

    @property
    def stretch(self) -> Stretch:
        """Return the unit's identity, which is the same each time that the unit is planned."""
        work = Work.MERGE if self.unit.rules is None else Work.COMPACTION
        return work, self.partition, self.unit.base_offset


@dataclass(frozen=True, slots=True)
class UnderWay:
    """The offsets that rounds under way work on, by the number of the partition.

    merged_from: the first offset of a merge.  compacted_to: the end offset of a compaction.
    """

    merged_from: dict[int, int] = field(default_factory=dict[int, int])
    compacted_to: dict[int, int] = field(default_factory=dict[int, int])

    def begin(self, each: PlannedUnit) -> None:
        """Add a unit."""
        if each.unit.rules is None:
            base_offset = each.unit.base_offset
            lowest = self.merged_from.get(each.partition, base_offset)
            self.merged_from[each.partition] = min(lowest, base_offset)
        else:
            self.compacted_to[each.partition] = each.unit.next_offset

    def end(self, units: Iterable[PlannedUnit]) -> None:
        """Remove a round's units; there is one round of a kind at a time."""
        for each in units:
            kind = self.merged_from if each.unit.rules is None else self.compacted_to
            kind.pop(each.partition, None)


class Plan:
    """Plans one round, a partition at a time, so that the caller can pause in between.

    is_paused: returns whether a stretch is paused.  next_number: returns a new unit's number.
    under_way: offsets that other rounds work on; the plan adds its units, and the caller removes
    them.
    """

    def __init__(
        self,
        state: ClusterState,
        settings: MergeSettings,
        *,
        settings_of: Callable[[Topic], TopicSettings],
        is_paused: Callable[[Stretch], bool],
        next_number: Callable[[], int],
        under_way: UnderWay,
    ) -> None:
        self._state = state
        self._settings = settings
        self._settings_of = settings_of
        self._is_paused = is_paused
        self._next_number = next_number
        self._under_way = under_way
        self._keys: dict[int, str] = {}
        self.units: list[PlannedUnit] = []
        self.size_bytes = 0
        self.runs = 0

    @property
    def is_full(self) -> bool:
        """Return whether further units should wait for the next round."""
        is_large = len(self.units) >= MAX_UNITS or self.runs >= MAX_RUNS
        return is_large or self.size_bytes >= MAX_BYTES

    def add_merges(self, number: int) -> bool:
        """Plan the merges of a partition that are worth their cost, if it still exists.

        Returns whether there is one, even if it is paused.
        """
        partition, topic = self._found(number)
        if partition is None or topic is None:
            return False
        found = False
        from_offset = self._under_way.compacted_to.get(number, 0)
        if topic.is_compacted:
            # The next round of compaction merges compacted segments.  It would end at the first
            # other run, which may have been brought back during the last round.
            merged_to = partition.runs.merged_to(RUN_SEGMENT)
            from_offset = max(from_offset, min(cleaned_to(partition.cleanings), merged_to))
        limits = limits_of(self._settings, topic)
        for parents in _stretches(self._state, partition, self._settings, limits, from_offset):
            found = True
            self._add(partition, parents, None)
        return found

    def add_compaction(self, number: int) -> bool:
        """Plan a round of compaction of a partition, if it is due; returns as add_merges() does.

        Only the source compacts a mirrored topic, so that offsets here and there can be compared.
        A topic that was switched to this cluster can still return, so it is not compacted until its
        source is forgotten.
        """
        partition, topic = self._found(number)
        if partition is None or topic is None or not topic.is_compacted:
            return False
        switched = self._state.switches.switched.get(partition.topic_id)
        may_return = switched is not None and not switched.is_finished
        if may_return or self._state.topics.get(partition.topic_id).link:
            return False
        found = compaction_of(
            self._state,
            partition,
            topic,
            self._settings,
            self._under_way.merged_from.get(number, partition.next_offset),
        )
        if found is not None:
            self._add(partition, *found)
        return found is not None

    def _found(self, number: int) -> tuple[Partition | None, TopicSettings | None]:
        partition = self._state.partitions.get(number)
        if partition is None:
            return None, None
        topic = self._state.topics.by_id.get(partition.topic_id)
        return partition, self._settings_of(topic) if topic is not None else None

    def _add(
        self, partition: Partition, parents: tuple[RunRow, ...], rules: CompactionRules | None
    ) -> None:
        work = Work.MERGE if rules is None else Work.COMPACTION
        if self._is_paused((work, partition.number, parents[0].base_offset)):
            return
        sources = tuple(self._source(partition, row) for row in parents)
        unit = MergeUnit(
            self._next_number(),
            partition.topic_id,
            partition.index,
            sources,
            rules,
            _aborted(partition, parents),
        )
        planned = PlannedUnit(unit, partition.number, parents)
        # Add the unit at once: another round may be planned while this planning yields.
        self._under_way.begin(planned)
        self.units.append(planned)
        self.size_bytes += unit.size_bytes
        self.runs += len(parents)

    def _source(self, partition: Partition, row: RunRow) -> Source:
        if row.is_marker:
            return _marker(partition, row)
        number = row.object_number
        objects = self._state.objects
        key = self._keys.get(number)
        if key is None:
            key = self._keys[number] = object_key(self._state, objects.name(number))
        return Source(
            key,
            row.position,
            row.length,
            row.base_offset,
            row.next_offset,
            row.check,
            row.max_timestamp if row.flags & RUN_LOG_APPEND_TIME else -1,
            objects.size_bytes(number) - row.position if row.flags & RUN_SEGMENT else 0,
            self._state.newest_at_ms(row),
            _bound_ms(row),
            partition.epoch_at(row.base_offset),
            is_final=bool(row.flags & RUN_FINAL),
            is_headed=bool(row.flags & RUN_HEADED),
        )


def _aborted(partition: Partition, parents: Iterable[RunRow]) -> tuple[tuple[int, int, int], ...]:
    """Return the aborted transactions that concern parents which are no segments.

    The indexes of segments name those of segments.  While a skipped run is kept, the state names
    these, too, even if compaction has removed their markers.
    """
    found: dict[tuple[int, int, int], None] = {}
    if not partition.aborted:
        return ()
    for is_segment, rows in groupby(parents, lambda row: bool(row.flags & RUN_SEGMENT)):
        if not is_segment:
            first, *others = rows
            last = others[-1] if others else first
            between = partition.aborted.between(first.base_offset, last.next_offset)
            found.update((row[:3], None) for row in between)
    return tuple(found)


def _bound_ms(row: RunRow) -> int:
    """Return Source.bound_ms: a mirror keeps the headers of its source."""
    may_be_false = row.flags & (RUN_FINAL | RUN_SEGMENT) and not row.flags & RUN_WALKED
    return row.max_timestamp if may_be_false else -1


def _marker(partition: Partition, row: RunRow) -> Source:
    """Return a transaction's marker as a source, which needs no object."""
    marker = row.marker()
    return Source(
        "",
        0,
        row.length,
        row.base_offset,
        row.next_offset,
        0,
        -1,
        0,
        row.max_timestamp,
        -1,
        partition.epoch_at(row.base_offset),
        (marker.producer_id, marker.epoch, marker.committed),
    )


def group_units(units: Iterable[PlannedUnit], task_bytes: int) -> Iterator[list[PlannedUnit]]:
    """Group units into tasks of at most task_bytes; a larger unit is a task by itself.

    Units that begin in the same object follow one another, so most of them share a task.
    """
    group: list[PlannedUnit] = []
    size_bytes = 0
    for each in sorted(units, key=_first_object):
        if group and size_bytes + each.unit.size_bytes > task_bytes:
            yield group
            group, size_bytes = [], 0
        group.append(each)
        size_bytes += each.unit.size_bytes
    if group:
        yield group


def backlog(state: ClusterState) -> tuple[int, int]:
    """Return the runs that are not in segments, and their bytes."""
    runs = size_bytes = 0
    for partition in state.partitions.values():
        for at in range(len(partition.runs)):
            row = partition.runs[at]
            if not row.flags & RUN_SEGMENT:
                runs += 1
                size_bytes += row.length
    return runs, size_bytes


def _first_object(each: PlannedUnit) -> tuple[int, int]:
    numbers = (row.object_number for row in each.parents if not row.is_marker)
    return next(numbers, 0), each.partition


def _stretches(
    state: ClusterState,
    partition: Partition,
    settings: MergeSettings,
    limits: Limits,
    from_offset: int,
) -> Iterator[tuple[RunRow, ...]]:
    """Yield the stretches of neighbours from an offset on, each of which becomes one segment."""
    stretch: list[RunRow] = []
    size_bytes = oldest_ms = 0
    before_ms: int | None = None
    for row in _rested(state, partition, settings, from_offset):
        is_full = row.length * 2 > limits.segment_bytes and bool(row.flags & RUN_SEGMENT)
        is_enough = size_bytes + row.length > limits.segment_bytes or len(stretch) == MAX_PARTS
        newest_ms = state.newest_at_ms(row)
        is_too_long = bool(stretch) and newest_ms - oldest_ms > limits.span_ms
        is_apart = bool(stretch) and row.base_offset != stretch[-1].next_offset
        if is_full or is_enough or is_too_long or is_apart:
            if _changes_anything(stretch):
                yield tuple(stretch)
            stretch, size_bytes = [], 0
        if not is_full:
            if not stretch:
                oldest_ms = _oldest_ms(row, newest_ms, before_ms, limits)
            stretch.append(row)
            size_bytes += row.length
        before_ms = newest_ms
    stretch = _without_large(stretch)
    if _changes_anything(stretch) and _is_due(state, stretch, settings):
        yield tuple(stretch)


def _oldest_ms(row: RunRow, newest_ms: int, before_ms: int | None, limits: Limits) -> int:
    """Return about the time of a row's oldest record: the newest one of the row before it.

    newest_ms, before_ms: the times from which the row and the row before it age.  A segment at the
    very beginning has no row before it, so it counts as spanning the whole limit.
    """
    if before_ms is not None:
        return min(before_ms, newest_ms)
    if row.flags & RUN_SEGMENT and limits.span_ms < inf:
        return newest_ms - int(limits.span_ms)
    return newest_ms


def _changes_anything(stretch: list[RunRow]) -> bool:
    """Return whether a merge has an effect.

    A merge of a lone run has an effect, too: the run keeps a whole WAL object from being collected.
    """
    return len(stretch) > 1 or (len(stretch) == 1 and not stretch[0].flags & RUN_SEGMENT)


def _rested(
    state: ClusterState, partition: Partition, settings: MergeSettings, from_offset: int
) -> Iterator[RunRow]:
    """Yield the runs from an offset on that are old enough, settled, and in the store.

    A run of an inlined object is not in the store yet (decision 49).  Below the last stable offset
    every transaction has ended, so a segment's index can name all aborted ones for ever.
    """
    before_ms = state.log_time_ms - settings.rest_ms
    looked_at = 0
    for at in range(len(partition.runs)):
        row = partition.runs[at]
        is_settled = row.next_offset <= partition.last_stable_offset
        if not is_settled or state.committed_at_ms(row) > before_ms:
            return
        if row.object_number in state.objects.inlined and not row.is_marker:
            return
        if row.base_offset < from_offset:
            continue
        yield row
        looked_at += not row.flags & RUN_SEGMENT
        if looked_at == MAX_LOOKED_AT:
            return


def _without_large(stretch: list[RunRow]) -> list[RunRow]:
    """Drop leading segments that are too large to copy for so few new bytes after them."""
    behind = sum(row.length for row in stretch)
    for at, row in enumerate(stretch):
        behind -= row.length
        if not row.flags & RUN_SEGMENT or behind * 2 >= row.length:
            return stretch[at:]
    return []


def _is_due(state: ClusterState, stretch: list[RunRow], settings: MergeSettings) -> bool:
    if len(stretch) >= settings.min_parts:
        return True
    oldest_ms = min(
        (state.committed_at_ms(row) for row in stretch if not row.flags & RUN_SEGMENT),
        default=state.log_time_ms,
    )
    return oldest_ms <= state.log_time_ms - settings.patience_ms
