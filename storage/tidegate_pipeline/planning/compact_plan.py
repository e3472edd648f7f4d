"""Plans the next compaction from the cluster state.  Pure.

A round covers all segments of a partition, from the first one up to its bound.  The bound is the
first of these: a run that is not merged yet, a record younger than `min.compaction.lag.ms`, the
last stable offset.  A round is due if the dirty part, which no round has covered, is more than
`min.cleanable.dirty.ratio` of all, as in Kafka.  It is also due if the last round, or the commit of
a dirty segment, was `max.compaction.lag.ms` ago.  If a partition had no round yet, the last round
counts as long ago.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.events.cluster import RUN_SEGMENT
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.cleanings import cleaned_before, cleaned_to
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow

from ..tasks.work import CompactionRules
from .limits import MergeSettings, limits_of


def compaction_of(
    state: ClusterState,
    partition: Partition,
    topic: TopicSettings,
    settings: MergeSettings,
    below: int,
) -> tuple[tuple[RunRow, ...], CompactionRules] | None:
    """Return the rows that the next round covers, and its rules; None if no round is due.

    below: the round ends before this offset; a merge works on the rows from there on.
    """
    bound = min(below, partition.last_stable_offset)
    rows = tuple(_cleanable(state, partition, topic, bound))
    dirty_from = cleaned_to(partition.cleanings)
    if not rows or rows[-1].next_offset <= dirty_from:
        return None
    if not _is_due(state, partition, topic, rows):
        return None
    limits = limits_of(settings, topic)
    rules = CompactionRules(
        dirty_from,
        cleaned_before(partition.cleanings, state.log_time_ms - topic.delete_retention_ms),
        limits.segment_bytes,
        -1 if limits.span_ms == inf else int(limits.span_ms),
        settings.map_bytes,
        _alone_below(state, topic, rows),
        topic.delete_retention_ms,
    )
    return rows, rules


def _cleanable(
    state: ClusterState, partition: Partition, topic: TopicSettings, bound: int
) -> Iterator[RunRow]:
    newest_ms = state.log_time_ms - topic.min_compaction_lag_ms
    for at in range(len(partition.runs)):
        row = partition.runs[at]
        is_young = topic.min_compaction_lag_ms > 0 and state.newest_at_ms(row) > newest_ms
        if not row.flags & RUN_SEGMENT or is_young or row.next_offset > bound:
            return
        yield row


def _is_due(
    state: ClusterState, partition: Partition, topic: TopicSettings, rows: tuple[RunRow, ...]
) -> bool:
    dirty_from = cleaned_to(partition.cleanings)
    dirty = [row for row in rows if row.next_offset > dirty_from]
    dirty_bytes = sum(row.length for row in dirty)
    if dirty_bytes > topic.min_cleanable_dirty_ratio * sum(row.length for row in rows):
        return True
    # A growing segment is as young as its newest record, so the time since the last round counts.
    oldest_ms = min(state.committed_at_ms(row) for row in dirty)
    last_ms = partition.cleanings[-1].log_time_ms if partition.cleanings else oldest_ms
    return state.log_time_ms - min(last_ms, oldest_ms) >= topic.max_compaction_lag_ms


def _alone_below(state: ClusterState, topic: TopicSettings, rows: tuple[RunRow, ...]) -> int:
    """Return the offset below which segments are in the last quarter before retention deletes them.

    Retention may delete these during the round.
    """
    if not topic.is_deleted_by_policy:
        return 0
    below = 0
    size_bytes = sum(row.length for row in rows)
    for row in rows:
        age_ms = state.log_time_ms - state.newest_at_ms(row)
        is_old = topic.retention_ms >= 0 and age_ms * 4 >= topic.retention_ms * 3
        is_much = topic.retention_bytes >= 0 and size_bytes * 4 >= topic.retention_bytes * 3
        if not is_old and not is_much:
            break
        below = row.next_offset
        size_bytes -= row.length
    return below
