"""The metrics of partitions, from this gateway's replica of the metadata log.

The topics that this gateway served most come first, then the newest topics, and internal topics
last.  Beyond the limit of series, partitions are summed in the series with topic OTHER and no
partition, and topics in the series with topic OTHER. All are gauges, since another gateway may show
them later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic
from tidegate_runtime.prometheus import BREAK, Break, Family, Series, gauge, label, line

from ...counting.topic_series import OTHER, TopicSeries
from ...topics.internal_topics import INTERNAL_TOPICS

MAX_PARTITION_SERIES: Final = 1000
STEP_PARTITIONS: Final = 1000
"""To sum them takes less than a millisecond."""
_VALUES: Final = (
    ("kafka_log_log_logstartoffset", "First offset", 0),
    ("kafka_log_log_logendoffset", "Next offset", 1),
    ("kafka_log_log_size", "Bytes of live batches", 2),
    ("kafka_topic_partition_oldest_offset", "First offset", 0),
    ("kafka_topic_partition_current_offset", "Next offset", 1),
)

_Row = tuple[int, int, int]


def partition_metrics(state: ClusterState, series: TopicSeries) -> Iterator[Family | Break]:
    """Yield offsets and sizes of single partitions, and how many partitions topics have."""
    yield BREAK
    topics = _by_activity(state, series)
    yield _topic_partitions(topics)
    yield _replicas(topics)
    yield BREAK
    partitions = state.partitions
    found = ((topic, partitions.get(each)) for topic in topics for each in topic.partition_numbers)
    there = ((topic, each) for topic, each in found if each is not None)
    shown = [(_labels(*each), _row(each[1])) for each in islice(there, MAX_PARTITION_SERIES)]
    yield BREAK
    hidden = (each for _, each in there)
    count, others = 0, (0, 0, 0)
    while step := list(islice(hidden, STEP_PARTITIONS)):
        others = _summed([others, *map(_row, step)])
        count += len(step)
        yield BREAK
    for name, help_text, place in _VALUES:
        yield Series(name, help_text, "gauge", _lines(name, place, shown, others if count else ()))
    yield gauge(
        "tidegate_partitions_without_series", f"Partitions that are summed as {OTHER}", count
    )


def _by_activity(state: ClusterState, series: TopicSeries) -> list[Topic]:
    """Return the topics, the most active ones first."""
    by_name, active = state.topics.by_name, series.own
    others = [each for each in reversed(by_name) if each not in active]
    first = [each for each in active if each in by_name]
    ordered = sorted([*first, *others], key=INTERNAL_TOPICS.__contains__)
    return [by_name[each] for each in ordered]


def _topic_partitions(topics: list[Topic]) -> Series:
    name = "kafka_topic_partitions"
    shown = [each for each in topics if each.name != OTHER][:MAX_PARTITION_SERIES]
    lines = [line(name, label("topic", each.name), len(each.partition_numbers)) for each in shown]
    if len(shown) < len(topics):
        count = sum(len(each.partition_numbers) for each in topics)
        count -= sum(len(each.partition_numbers) for each in shown)
        lines.append(line(name, label("topic", OTHER), count))
    return Series(name, "Partitions of a topic", "gauge", lines)


def _replicas(topics: list[Topic]) -> Series:
    """Return the replication factors; Strimzi's dashboard takes its topic list from this metric."""
    name = "kafka_cluster_partition_replicascount"
    shown = topics[:MAX_PARTITION_SERIES]
    lines = [line(name, label("topic", each.name), each.replication_factor) for each in shown]
    return Series(name, "Replication factor of a topic", "gauge", lines)


def _labels(topic: Topic, partition: Partition) -> str:
    return f'partition="{partition.index}",{label("topic", topic.name)}'


def _row(partition: Partition) -> _Row:
    return partition.log_start, partition.next_offset, partition.size_bytes


def _summed(rows: Iterable[_Row]) -> _Row:
    starts, ends, sizes = zip(*rows, strict=True)
    return sum(starts), sum(ends), sum(sizes)


def _lines(
    name: str, place: int, shown: list[tuple[str, _Row]], others: tuple[int, ...]
) -> Iterator[str]:
    for labels, row in shown:
        yield line(name, labels, row[place])
    if others:
        yield line(name, label("topic", OTHER), others[place])
