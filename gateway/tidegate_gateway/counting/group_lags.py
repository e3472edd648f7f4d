"""How far consumer groups are behind, from the committed offsets in the metadata log.  Pure.

Lag in seconds is the age of the first run with records that a group has not read, by log time and
the largest timestamp of the run.  So no object is read, and the true lag may be larger by the time
that this run spans.  A marker is no record: a group that has read all records of transactions is
not behind.

Retention used says how close the first unread records are to their deletion: 0 to 1, by age or by
size, whichever is closer.  1 is also a group whose next records were deleted before it read them.

All offsets are looked at, STEP_OFFSETS at a time.  Those that are furthest behind have rows; all
others are summed, or their maximum taken, so that none is left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from tidegate_coordination.configs.topic_settings import TopicSettings
from tidegate_coordination.events.groups import CommittedOffset
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_coordination.state.topics import Topic

STEP_OFFSETS: Final = 500
"""Takes about a millisecond."""
MAX_MARKERS: Final = 100


class PartitionLag(NamedTuple):
    """One committed offset, the furthest behind last in order.  lag: in records."""

    lag: int
    group_id: str
    topic: str
    partition: int
    offset: int


class TopicLag(NamedTuple):
    """A group's partitions of a topic: the sum of lag and offset, the maximum of the others.

    seconds, retention_used: see the module's head.
    """

    seconds: float = 0.0
    retention_used: float = 0.0
    lag: int = 0
    offset: int = 0
    group_id: str = ""
    topic: str = ""

    def plus(self, other: TopicLag) -> TopicLag:
        """Return both as one, under this one's names."""
        return TopicLag(
            max(self.seconds, other.seconds),
            max(self.retention_used, other.retention_used),
            self.lag + other.lag,
            self.offset + other.offset,
            self.group_id,
            self.topic,
        )


@dataclass(slots=True)
class GroupLags:
    """What look() found.  The others are those beyond `most` rows; None: there are none.

    partitions, topics: the furthest behind first.
    """

    most: int
    partitions: list[PartitionLag] = field(default_factory=list[PartitionLag])
    topics: list[TopicLag] = field(default_factory=list[TopicLag])
    other_partitions: TopicLag | None = None
    other_topics: TopicLag | None = None

    def look(
        self, state: ClusterState, settings_of: Callable[[Topic], TopicSettings]
    ) -> Iterator[None]:
        """Fill the rows; other tasks may run at each yield, and change the state."""
        seen = 0
        for group_id, topic, offsets in _committed(state):
            whole = TopicLag(group_id=group_id, topic=topic.name)
            while step := list(islice(offsets, STEP_OFFSETS)):
                settings = settings_of(topic)
                for index, committed in step:
                    partition = state.partitions.get(topic.partition_numbers[index])
                    if partition is not None:  # else the topic was deleted meanwhile
                        found = lag_of(state, partition, committed.offset, settings)
                        whole = whole.plus(found)
                        self._add_partition(
                            PartitionLag(found.lag, group_id, topic.name, index, found.offset)
                        )
                seen += len(step)
                if seen >= STEP_OFFSETS:
                    yield
                    seen = 0
            self._add_topic(whole)
        self.partitions.sort(reverse=True)
        self.topics.sort(reverse=True)

    def _add_partition(self, row: PartitionLag) -> None:
        if len(self.partitions) < self.most:
            heapq.heappush(self.partitions, row)
            return
        left = heapq.heappushpop(self.partitions, row)
        others = self.other_partitions or TopicLag()
        self.other_partitions = others.plus(TopicLag(lag=left.lag, offset=left.offset))

    def _add_topic(self, row: TopicLag) -> None:
        if len(self.topics) < self.most:
            heapq.heappush(self.topics, row)
            return
        self.other_topics = (self.other_topics or TopicLag()).plus(
            heapq.heappushpop(self.topics, row)
        )


def _committed(
    state: ClusterState,
) -> Iterator[tuple[str, Topic, Iterator[tuple[int, CommittedOffset]]]]:
    """Yield (group id, topic, (partition, offset) of each); the state may change meanwhile."""
    for group in list(state.groups):
        for topic_id, offsets in list(group.offsets.items()):
            topic = state.topics.by_id.get(topic_id)
            if topic is not None:
                yield group.group_id, topic, iter(list(offsets.items()))


def lag_of(
    state: ClusterState, partition: Partition, offset: int, settings: TopicSettings
) -> TopicLag:
    """Return the lag of a group that reads on from an offset.

    As at Kafka's tools, the lag in records counts offsets up to the high watermark.  It is below 0
    for an offset beyond that.
    """
    lag = partition.next_offset - offset
    if not lag:  # most have read all
        return TopicLag(offset=offset)
    unread = _first_unread(partition, offset)
    seconds = 0.0
    if unread is not None:
        # The clock by which retention deletes.
        now_ms = state.gateways.earlier_of_median_and(state.log_time_ms)
        timestamp = unread.max_timestamp
        written_ms = timestamp if timestamp >= 0 else state.committed_at_ms(unread)
        seconds = max(now_ms - written_ms, 0) / 1000
    # One offset below may be the marker that followed the last record read.
    used = 1.0 if offset + 1 < partition.log_start else 0.0
    if unread is not None and settings.is_deleted_by_policy:
        used = max(used, _retention_used(partition, lag, seconds, settings))
    return TopicLag(seconds, used, lag, offset)


def _retention_used(
    partition: Partition, lag: int, seconds: float, settings: TopicSettings
) -> float:
    """Return how near retention is to the first unread records; by size, runs count as equal."""
    used = 0.0
    if settings.retention_ms > 0:
        used = seconds * 1000 / settings.retention_ms
    offsets = partition.next_offset - partition.log_start
    if settings.retention_bytes > 0 and offsets > 0:
        used = max(used, partition.size_bytes * lag / offsets / settings.retention_bytes)
    return min(used, 1.0)


def _first_unread(partition: Partition, offset: int) -> RunRow | None:
    """Return the first run with records from an offset on; None if all were read.

    After MAX_MARKERS markers in a row, the last of them stands for it.
    """
    runs = partition.runs
    first = runs.find(offset)
    row = None
    for index in range(first, min(first + MAX_MARKERS, len(runs))):
        row = runs[index]
        if not row.is_marker:
            return row
    return row if first + MAX_MARKERS < len(runs) else None
