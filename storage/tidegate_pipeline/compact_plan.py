"""What to compact next.  Pure: a look at the cluster state.

A round has all segments of a partition before it, from the front up to where it may not go: runs
that are not merged yet, records that are younger than `min.compaction.lag.ms`, the last stable
offset.  It is due as with Kafka: when the dirty part, which no round has had before it, is more
than `min.cleanable.dirty.ratio` of all, or the last round is `max.compaction.lag.ms` ago.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.events import RUN_SEGMENT
from tidegate_coordination.state.cleanings import cleaned_before, cleaned_to
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.partitions import Partition
from tidegate_coordination.state.runs import RunRow

from .limits import MergeSettings, limits_of
from .work import CompactionRules


def compaction_of(
    state: ClusterState,
    partition: Partition,
    topic: TopicSettings,
    settings: MergeSettings,
    below: int,
) -> tuple[tuple[RunRow, ...], CompactionRules] | None:
    """Return what the next round has before it, and how it is done; None if none is due.

    below: what lies there or behind is being merged.
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
    )
    return rows, rules


def _cleanable(
    state: ClusterState, partition: Partition, topic: TopicSettings, bound: int
) -> Iterator[RunRow]:
    newest_ms = state.log_time_ms - topic.min_compaction_lag_ms
    for at in range(len(partition.runs)):
        row = partition.runs[at]
        is_young = topic.min_compaction_lag_ms > 0 and row.max_timestamp > newest_ms
        if not row.flags & RUN_SEGMENT or is_young or row.next_offset > bound:
            return
        yield row


def _is_due(
    state: ClusterState, partition: Partition, topic: TopicSettings, rows: tuple[RunRow, ...]
) -> bool:
    dirty_from = cleaned_to(partition.cleanings)
    dirty_bytes = sum(row.length for row in rows if row.next_offset > dirty_from)
    if dirty_bytes > topic.min_cleanable_dirty_ratio * sum(row.length for row in rows):
        return True
    last_ms = partition.cleanings[-1].log_time_ms if partition.cleanings else 0
    return state.log_time_ms - last_ms >= topic.max_compaction_lag_ms
