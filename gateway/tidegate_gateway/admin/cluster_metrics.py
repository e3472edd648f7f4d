"""The metrics of the cluster, as this gateway's replica of the metadata log shows it.

A scrape looks at each topic once, and at no partition that is not shown: those of the topics that
this gateway served most come first, then the newest topics, and internal topics last.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from prometheus_client.metrics_core import Metric

from tidegate_coordination.state.records.partitions import Partition
from tidegate_runtime.prometheus import BREAK, Break, Family, Series, label, line

from ..gateway import Gateway
from ..topics.internal_topics import INTERNAL_TOPICS
from .families import counter, gauge

MAX_PARTITION_SERIES: Final = 1000


def cluster_metrics(gateway: Gateway) -> Iterator[Metric]:
    """Yield the sizes of the cluster."""
    state = gateway.coordinator.state
    gateways = state.gateways.brokers()
    is_first = bool(gateways) and gateways[0].incarnation == gateway.coordinator.incarnation
    topics, partitions = len(state.topics.by_id), len(state.partitions)
    for name, help_text, value in (
        ("kafka_controller_kafkacontroller_activecontrollercount", "1 at one gateway", is_first),
        ("kafka_controller_kafkacontroller_activebrokercount", "Live gateways", len(gateways)),
        ("kafka_controller_kafkacontroller_globaltopiccount", "Topics", topics),
        ("kafka_controller_kafkacontroller_globalpartitioncount", "Partitions", partitions),
        ("kafka_controller_kafkacontroller_offlinepartitionscount", "Always 0", 0),
        ("kafka_server_replicamanager_partitioncount", "Partitions served here", partitions),
        ("kafka_server_replicamanager_leadercount", "Partitions served here", partitions),
        ("kafka_server_replicamanager_underreplicatedpartitions", "Always 0", 0),
        ("kafka_server_replicamanager_underminisrpartitioncount", "Always 0", 0),
        ("kafka_server_replicamanager_offlinereplicacount", "Always 0", 0),
        ("kafka_cluster_partition_underminisr", "Always 0", 0),
        ("kafka_cluster_partition_atminisr", "Always 0", 0),
        ("kafka_server_groupmetadatamanager_numgroups", "Groups", len(state.groups)),
        ("tidegate_log_position", "Position of the metadata log folded here", state.position),
        ("tidegate_log_time_seconds", "Log time, since 1970", state.log_time_ms / 1000),
        ("tidegate_backup_position", "Position of the last backup", gateway.backup.status.position),
        (
            "tidegate_backup_time_seconds",
            "Time of the log's last backup, since 1970; 0: none since the gateway's start",
            gateway.backup.status.time_ms / 1000,
        ),
        ("tidegate_objects", "Objects the metadata log knows", len(state.objects)),
        ("tidegate_segments", "Objects that are segments", state.objects.segment_count),
        ("tidegate_dead_objects", "Objects that wait for deletion", len(state.objects.dead)),
    ):
        yield gauge(name, help_text, value)
    yield counter("kafka_controller_controllerstats_uncleanleaderelections", "Always 0", 0)
    yield counter(
        "tidegate_log_lost_conflicts",
        "Appends that got CONFLICT, since another gateway's entry was first",
        gateway.coordinator.lost_conflicts,
    )


def partition_metrics(gateway: Gateway) -> Iterator[Family | Break]:
    """Yield offsets and sizes of single partitions."""
    yield BREAK
    partitions = gateway.coordinator.state.partitions
    shown = list(islice(_by_activity(gateway), MAX_PARTITION_SERIES))
    for name, help_text, value in (
        ("logstartoffset", "First offset", "log_start"),
        ("logendoffset", "Next offset", "next_offset"),
        ("size", "Bytes of live batches", "size_bytes"),
    ):
        name = f"kafka_log_log_{name}"
        lines = (line(name, labels, getattr(partition, value)) for labels, partition in shown)
        yield Series(name, help_text, "gauge", lines)
    yield gauge(
        "tidegate_partitions_without_series",
        "Partitions past the cap on series",
        len(partitions) - len(shown),
    )


def _by_activity(gateway: Gateway) -> Iterator[tuple[str, Partition]]:
    """Yield partitions with their labels, those of the most active topics first."""
    state, active = gateway.coordinator.state, gateway.topic_series.own
    by_name = state.topics.by_name
    others = [each for each in reversed(by_name) if each not in active]
    first = [each for each in active if each in by_name]
    for name in sorted([*first, *others], key=INTERNAL_TOPICS.__contains__):
        for number in by_name[name].partition_numbers:
            partition = state.partitions[number]
            yield f'partition="{partition.index}",{label("topic", name)}', partition
