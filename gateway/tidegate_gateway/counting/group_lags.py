"""The lag of consumer groups, from the committed offsets in the metadata log.  Pure.

Lag in seconds is the age of the first run with records that a group has not read.  The age is log
time minus the largest timestamp of the run, so no object is read.  The true lag may be larger by
the time that this run spans.  Markers do not count as records, so a group that has read all records
has no lag in seconds.

Retention used is a figure from 0 to 1.  It says how close the first unread records are to their
deletion, by age or by size, whichever is closer.  It is also 1 if the group's next records were
deleted before the group read them.

All offsets are looked at, STEP_OFFSETS at a time.  The partitions with the largest lag have rows.
All other partitions go into a sum or a maximum.
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
    """One committed offset.  The order is by lag, the largest last.  lag: in records."""

    lag: int
    group_id: str
    topic: str
    partition: int
    offset: int


class TopicLag(NamedTuple):
    """A group's lag in a topic: lag, offset and beyond are sums over partitions, others maxima.

    seconds, retention_used: see the module's docstring.  beyond: how far committed offsets lie
    beyond the log end offset.
    """

    seconds: float = 0.0
    retention_used: float = 0.0
    lag: int = 0
    offset: int = 0
    group_id: str = ""
    topic: str = ""
    beyond: int = 0

    def plus(self, other: TopicLag) -> TopicLag:
        """Return the sum of both lags, with the names of this one."""
        return TopicLag(
            max(self.seconds, other.seconds),
            max(self.retention_used, other.retention_used),
            self.lag + other.lag,
            self.offset + other.offset,
            self.group_id,
            self.topic,
            self.beyond + other.beyond,
        )


@dataclass(slots=True)
class GroupLags:
    """The rows that look() fills.  other_topics, other_partitions: sums beyond `most` rows, or
    None.

    partitions, topics: the rows, the largest lag first.
    """

    most: int
    partitions: list[PartitionLag] = field(default_factory=list[PartitionLag])
    topics: list[TopicLag] = field(default_factory=list[TopicLag])
    other_topics: TopicLag | None = None
    _other_count: int = 0
    _other_lag: int = 0
    _other_offset: int = 0

    @property
    def other_partitions(self) -> TopicLag | None:
        """The sums of lag and offset of the other partitions."""
        if not self._other_count:
            return None
        return TopicLag(lag=self._other_lag, offset=self._other_offset)

    def look(
        self, state: ClusterState, settings_of: Callable[[Topic], TopicSettings]
    ) -> Iterator[None]:
        """Fill the rows; other tasks may run at each yield, and change the state."""
        seen = 0
        for group_id, topic, offsets in _committed(state):
            whole = TopicLag(group_id=group_id, topic=topic.name)
            while step := list(islice(offsets, STEP_OFFSETS)):
                whole = whole.plus(self._step(state, group_id, topic, step, settings_of(topic)))
                seen += len(step)
                if seen >= STEP_OFFSETS:
                    yield
                    seen = 0
            self._add_topic(whole)
        self.partitions.sort(reverse=True)
        self.topics.sort(reverse=True)

    def _step(
        self,
        state: ClusterState,
        group_id: str,
        topic: Topic,
        step: list[tuple[int, CommittedOffset]],
        settings: TopicSettings,
    ) -> TopicLag:
        """Add partitions, and return their totals.  Most partitions have no lag, and are quick."""
        # The clock that retention uses.
        now_ms = state.gateways.earlier_of_median_and(state.log_time_ms)
        lags = offsets = beyond = 0
        seconds = used = 0.0
        for index, committed in step:
            partition = state.partitions.get(topic.partition_numbers[index])
            if partition is None:  # the topic was deleted meanwhile
                continue
            offset = committed.offset
            # An offset beyond the end must not hide the lag of another partition in a sum.
            lag = max(partition.next_offset - offset, 0)
            beyond += max(offset - partition.next_offset, 0)
            lags += lag
            offsets += offset
            if lag:
                found = waits_of(state, partition, offset, settings, now_ms)
                seconds, used = max(seconds, found[0]), max(used, found[1])
            if len(self.partitions) == self.most and lag <= self.partitions[0].lag:
                self._add_other(lag, offset)
            else:
                self._add_partition(PartitionLag(lag, group_id, topic.name, index, offset))
        return TopicLag(seconds, used, lags, offsets, beyond=beyond)

    def _add_partition(self, row: PartitionLag) -> None:
        if len(self.partitions) < self.most:
            heapq.heappush(self.partitions, row)
            return
        left = heapq.heappushpop(self.partitions, row)
        self._add_other(left.lag, left.offset)

    def _add_other(self, lag: int, offset: int) -> None:
        self._other_count += 1
        self._other_lag += lag
        self._other_offset += offset

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
    """Yield each group's offsets of a topic; the state may change between two yields."""
    for group in list(state.groups):
        for topic_id, offsets in list(group.offsets.items()):
            topic = state.topics.by_id.get(topic_id)
            if topic is not None:
                yield group.group_id, topic, iter(list(offsets.items()))


def waits_of(
    state: ClusterState, partition: Partition, offset: int, settings: TopicSettings, now_ms: int
) -> tuple[float, float]:
    """Return the lag in seconds and the retention used of a group that continues at an offset."""
    unread = _first_unread(partition, offset)
    seconds = 0.0
    if unread is not None:
        seconds = max(now_ms - state.newest_at_ms(unread), 0) / 1000
    # The offset before the log start may be that of a marker after the last record read.
    used = 1.0 if offset + 1 < partition.log_start else 0.0
    if unread is not None and settings.is_deleted_by_policy:
        used = max(used, _retention_used(partition, offset, seconds, settings))
    return seconds, used


def _retention_used(
    partition: Partition, offset: int, seconds: float, settings: TopicSettings
) -> float:
    """Return how near retention is to the first unread records.

    For retention by size, all offsets count as equally large.
    """
    used = 0.0
    if settings.retention_ms > 0:
        used = seconds * 1000 / settings.retention_ms
    offsets = partition.next_offset - partition.log_start
    if settings.retention_bytes > 0 and offsets > 0:
        lag = partition.next_offset - offset
        used = max(used, partition.size_bytes * lag / offsets / settings.retention_bytes)
    return min(used, 1.0)


def _first_unread(partition: Partition, offset: int) -> RunRow | None:
    """Return the first run with records from an offset on; None if the group has read all records.

    If the first MAX_MARKERS runs are markers, and more runs follow, return the last of these
    markers instead.
    """
    runs = partition.runs
    first = runs.find(offset)
    row = None
    for index in range(first, min(first + MAX_MARKERS, len(runs))):
        row = runs[index]
        if not row.is_marker:
            return row
    return row if first + MAX_MARKERS < len(runs) else None
