"""The feature of topics and their replicas."""

from __future__ import annotations

from functools import partial

from ...feature import Feature, Ground, Row, always
from ...zones.cluster_view import ClusterView
from .acts import created, deleted, extended
from .alter_partition_reassignments import AlterPartitionReassignmentsHandler
from .alter_replica_log_dirs import AlterReplicaLogDirsHandler
from .create_partitions import CreatePartitionsHandler
from .create_topics import CreateTopicsHandler
from .delete_topics import DeleteTopicsHandler
from .describe_log_dirs import DescribeLogDirsHandler
from .describe_topic_partitions import DescribeTopicPartitionsHandler
from .elect_leaders import ElectLeadersHandler
from .guards import (
    guard_create_partitions,
    guard_create_topics,
    guard_delete_topics,
    guard_describe_topic_partitions,
)
from .list_partition_reassignments import ListPartitionReassignmentsHandler
from .metrics import partition_metrics
from .replica_guards import (
    guard_alter_partition_reassignments,
    guard_alter_replica_log_dirs,
    guard_describe_log_dirs,
    guard_elect_leaders,
    guard_list_partition_reassignments,
)


def topics_feature(ground: Ground, view: ClusterView) -> Feature:
    """Return the feature."""
    return Feature(
        "topics",
        (*_topic_rows(ground, view), *_replica_rows(ground, view)),
        facts=partial(partition_metrics, ground.coordinator.state, ground.counters.series),
    )


def _topic_rows(ground: Ground, view: ClusterView) -> tuple[Row, ...]:
    coordinator, settings = ground.coordinator, ground.settings
    return (
        Row(
            DescribeTopicPartitionsHandler(coordinator, settings, view),
            guard_describe_topic_partitions,
        ),
        Row(
            CreateTopicsHandler(coordinator, settings, ground.new_topic_id, ground.cluster),
            guard_create_topics,
            act=created,
            is_audited=True,
            proposes=always,
        ),
        Row(
            DeleteTopicsHandler(coordinator, settings),
            guard_delete_topics,
            act=deleted,
            is_audited=True,
            proposes=always,
        ),
        Row(
            CreatePartitionsHandler(coordinator),
            guard_create_partitions,
            act=extended,
            is_audited=True,
            proposes=always,
        ),
    )


def _replica_rows(ground: Ground, view: ClusterView) -> tuple[Row, ...]:
    coordinator = ground.coordinator
    return (
        Row(
            DescribeLogDirsHandler(coordinator, view, ground.identity.node_id),
            guard_describe_log_dirs,
            lists=True,
        ),
        Row(AlterReplicaLogDirsHandler(coordinator), guard_alter_replica_log_dirs),
        Row(ElectLeadersHandler(coordinator), guard_elect_leaders, lists=True),
        Row(
            AlterPartitionReassignmentsHandler(coordinator, view),
            guard_alter_partition_reassignments,
        ),
        Row(ListPartitionReassignmentsHandler(), guard_list_partition_reassignments),
    )
