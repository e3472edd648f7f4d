"""Retention and collection: which records and objects are deleted, and when.

Planning only reads the state; the proposals check again at the position they get.  An object is
collected in two steps.  First it has no live run left; its death is in the log.  After a grace
period longer than any reader's plan it is deleted, and then an event removes it from the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from math import inf

from ..configs.topic_settings import TopicSettings
from ..events.cluster import LogStartsMoved, ObjectsCollected
from ..state.cluster import ClusterState
from ..state.records.partitions import Partition
from ..state.topics import Topic
from .proposal import HEADS, OBJECTS, TOPICS, Decided, View
from .written_back import reached_of

MAX_MOVES = 10_000
MAX_COLLECTED = 1_000


def plan_retention(
    state: ClusterState,
    settings_of: Callable[[Topic], TopicSettings | None],
    topics: Iterable[Topic] | None = None,
) -> list[tuple[int, int]]:
    """Return (partition number, new log start) as retention.ms and retention.bytes demand.

    A topic that is only compacted, is mirrored, or whose settings are None, is never cut.  The
    oldest run is deleted first; the first run that is still needed ends the search, so no run is
    deleted early.  Returns at most MAX_MOVES moves.  topics: None for all.
    """
    moves: list[tuple[int, int]] = []
    for topic in state.topics.by_id.values() if topics is None else topics:
        settings = None if topic.link else settings_of(topic)
        if settings is None or not settings.is_deleted_by_policy:
            continue
        for number in topic.partition_numbers:
            partition = state.partitions[number]
            offset = _retained_from(state, partition, settings)
            # Records that are not yet back at the source stay; see returns.py.
            reached = reached_of(state, partition)
            offset = offset if reached is None else min(offset, reached)
            if offset > partition.floor:
                moves.append((number, offset))
            if len(moves) == MAX_MOVES:
                return moves
    return moves


def _retained_from(state: ClusterState, partition: Partition, settings: TopicSettings) -> int:
    """Return the first offset that must stay.

    See newest_at_ms() for the age of a run.  Kept runs age, too; their bytes do not count.  If one
    clock was ahead once, log time may stay ahead for ever.  So the earlier one of log time and the
    clocks' median counts, and retention does not delete too early.
    """
    now_ms = state.gateways.earlier_of_median_and(state.log_time_ms)
    offset = partition.floor
    size_bytes = partition.size_bytes
    kept = {run.base_offset for run in partition.kept or ()}
    for run in partition.rows():
        length = 0 if run.base_offset in kept else run.length
        too_old = 0 <= settings.retention_ms < now_ms - state.newest_at_ms(run)
        too_much = 0 <= settings.retention_bytes <= size_bytes - length
        if not (too_old or too_much) or run.next_offset > partition.last_stable_offset:
            break
        offset = run.next_offset
        size_bytes -= length
    return offset


@dataclass(frozen=True, slots=True)
class MoveLogStarts:
    """Move log starts up.  Answer: None; moves that no longer fit the state are dropped."""

    moves: tuple[tuple[int, int], ...]
    reads: frozenset[str] = field(default=frozenset({TOPICS, HEADS}), init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS, OBJECTS}), init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        moves = tuple(self._valid(view))
        return Decided((LogStartsMoved(moves),) if moves else (), None)

    def _valid(self, view: View) -> Iterator[tuple[int, int]]:
        for number, offset in self.moves:
            partition = view.state.partitions.get(number)
            if partition is None or view.state.topics.get(partition.topic_id).link:
                continue
            reached = reached_of(view.state, partition)
            if reached is not None and offset > reached:
                continue
            if partition.floor < offset <= partition.next_offset:
                yield number, offset


def collectable(
    state: ClusterState,
    grace_ms: int,
    copied_ms: float = inf,
    *,
    left_out: Set[int] = frozenset(),
    among: Iterable[int] | None = None,
) -> list[int]:
    """Return the objects that have been dead for the grace period, at most MAX_COLLECTED.

    copied_ms: every entry of an earlier log time is in a copy of the log.  Objects that died later
    stay, since a log restored from the copy would not know the segments and would still read them.
    left_out: object numbers to skip.  among: object numbers to consider, which may be gone; None
    for all.
    """
    before_ms = state.log_time_ms - grace_ms
    objects = state.objects
    dead = objects.dead
    numbers = dead if among is None else [each for each in among if each in dead]
    due = (
        number
        for number in numbers
        for since_ms in [dead[number]]
        if since_ms <= before_ms
        and (since_ms < copied_ms or not objects.is_superseded(number))
        and number not in left_out
    )
    return [number for number, _ in zip(due, range(MAX_COLLECTED), strict=False)]


@dataclass(frozen=True, slots=True)
class ForgetObjects:
    """Forget objects that were deleted.  Answer: None."""

    numbers: tuple[int, ...]
    reads: frozenset[str] = field(default=frozenset({OBJECTS}), init=False)
    writes: frozenset[str] = field(default=frozenset({OBJECTS}), init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        known = tuple(each for each in self.numbers if each in view.state.objects.dead)
        return Decided((ObjectsCollected(known),) if known else (), None)
