"""The metrics of the cluster's size, from this gateway's replica of the metadata log."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_runtime.prometheus import counter, gauge


def is_controller(coordinator: Coordinator) -> bool:
    """Return whether this gateway, as the first live one, acts as Kafka's active controller.

    A gateway with a stale replica does not know which gateways are live, so it returns False.
    """
    gateways = coordinator.state.gateways.brokers()
    is_first = bool(gateways) and gateways[0].incarnation == coordinator.incarnation
    return is_first and not coordinator.is_stale


def cluster_metrics(coordinator: Coordinator) -> Iterator[Metric]:
    """Yield the metrics of the cluster's size."""
    state = coordinator.state
    gateways = state.gateways.brokers()
    is_first = is_controller(coordinator)
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
        ("tidegate_objects", "Objects the metadata log knows", len(state.objects)),
        ("tidegate_segments", "Objects that are segments", state.objects.segment_count),
        ("tidegate_dead_objects", "Objects that wait for deletion", len(state.objects.dead)),
    ):
        yield gauge(name, help_text, value)
    yield counter("kafka_controller_controllerstats_uncleanleaderelections", "Always 0", 0)
    yield counter(
        "tidegate_log_lost_conflicts",
        "Appends that got CONFLICT, since another gateway's entry was first",
        coordinator.lost_conflicts,
    )
