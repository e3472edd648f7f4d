"""The metrics of consumer groups, with the names of kafka_exporter if it has the metric.

All are gauges, since the gateway that shows them can change.  Series beyond the limit are
joined in one with the consumergroup OTHER, which has the sum of offsets, lags and members, and the
maximum of seconds and ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.groups import Group
from tidegate_coordination.state.writers.gateways import Gateway as Broker
from tidegate_runtime.addresses import url_host
from tidegate_runtime.prometheus import BREAK, Break, Family, Series, gauge, label, line

from ...counting.group_lags import GroupLags, PartitionLag, TopicLag
from ...counting.topic_series import OTHER

MAX_GROUP_SERIES: Final = 1000
_OTHERS: Final = label("consumergroup", OTHER)
_BY_PARTITION: Final = (
    ("kafka_consumergroup_current_offset", "Committed offset", "offset"),
    ("kafka_consumergroup_lag", "Offsets from the committed one to the end", "lag"),
)
_BY_TOPIC: Final = (
    ("kafka_consumergroup_lag_sum", "Sum of the lags of a topic's partitions", "lag"),
    (
        "tidegate_group_lag_seconds",
        "Age of the first unread records by log time, the maximum of a topic's partitions",
        "seconds",
    ),
    (
        "tidegate_group_retention_used_ratio",
        "How near retention is to the first unread records; 1: it deletes them, or has",
        "retention_used",
    ),
    (
        "tidegate_group_beyond_end_offsets",
        "How far committed offsets lie beyond the end, the sum of a topic's partitions",
        "beyond",
    ),
)

_Row = TypeVar("_Row", PartitionLag, TopicLag)


def group_metrics(state: ClusterState, settings: ClusterSettings) -> Iterator[Family | Break]:
    """Yield members, committed offsets and lags of groups."""
    brokers = state.gateways.brokers()
    yield gauge("kafka_brokers", "Live gateways", len(brokers))
    yield _broker_info(brokers)
    yield BREAK
    yield _members(state.groups)
    lags = GroupLags(MAX_GROUP_SERIES)
    for _ in lags.look(state, settings.of):
        yield BREAK
    yield from _families(_BY_PARTITION, lags.partitions, _partition_labels, lags.other_partitions)
    yield from _families(_BY_TOPIC, lags.topics, _topic_labels, lags.other_topics)


def _broker_info(brokers: Iterable[Broker]) -> Series:
    """Return a metric of the gateways; Strimzi's dashboard takes its list of clusters from it."""
    name = "kafka_broker_info"
    lines = [
        line(name, f"{label('address', _address(each))},{label('id', str(each.node_id))}", 1)
        for each in brokers
    ]
    return Series(name, "1 for each live gateway", "gauge", lines)


def _address(broker: Broker) -> str:
    """Return the address of a gateway's first listener."""
    first = next(iter(broker.endpoints), None)
    return "" if first is None else f"{url_host(first.host)}:{first.port}"


def _members(groups: Iterable[Group]) -> Series:
    name = "kafka_consumergroup_members"
    counts = sorted(((len(each.members), each.group_id) for each in groups), reverse=True)
    shown = [each for each in counts if each[1] != OTHER][:MAX_GROUP_SERIES]
    lines = [line(name, label("consumergroup", group_id), count) for count, group_id in shown]
    if len(shown) < len(counts):
        others = sum(count for count, _ in counts) - sum(count for count, _ in shown)
        lines.append(line(name, _OTHERS, others))
    return Series(name, "Members of a group", "gauge", lines)


def _families(
    families: Iterable[tuple[str, str, str]],
    rows: Sequence[_Row],
    labels_of: Callable[[_Row], str],
    others: TopicLag | None,
) -> Iterator[Series]:
    shown: list[tuple[str, PartitionLag | TopicLag]] = [(labels_of(each), each) for each in rows]
    if others is not None:
        shown.append((_OTHERS, others))
    for name, help_text, attribute in families:
        lines = (line(name, labels, getattr(row, attribute)) for labels, row in shown)
        yield Series(name, help_text, "gauge", lines)


def _partition_labels(row: PartitionLag) -> str:
    return f'{_group_labels(row)},partition="{row.partition}",{label("topic", row.topic)}'


def _topic_labels(row: TopicLag) -> str:
    return f"{_group_labels(row)},{label('topic', row.topic)}"


def _group_labels(row: PartitionLag | TopicLag) -> str:
    return label("consumergroup", row.group_id)
