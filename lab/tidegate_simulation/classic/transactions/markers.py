"""Writes the markers that end a transaction, and publishes its offsets, as Kafka does.  Pure.

A marker is refused, and tried again later, while its partition has no leader or too few replicas,
and while max.message.bytes keeps it out: a fence keeps markers out, too.
"""

from __future__ import annotations

from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC

from ..model_cluster import ModelCluster
from ..model_topics import NO_LEADER, ModelPartition, PartitionKey
from ..model_transaction import ModelTransaction
from ..refusals import Refused


def write_markers(
    cluster: ModelCluster, transaction: ModelTransaction, now: float, now_ms: int
) -> list[ModelPartition]:
    """Try to write each marker that is missing; return the partitions that got one now.

    The transaction is complete as soon as all markers are replicated.
    """
    appended: list[ModelPartition] = []
    for key in list(transaction.partitions):
        if key.topic == OFFSETS_TOPIC:
            _end_offsets(cluster, transaction, key)
            continue
        topic = cluster.topics.get(key.topic)
        partition = topic.partition(key.partition) if topic is not None else None
        if partition is None:
            transaction.marked(key)  # it was deleted
        elif _needs_marker(transaction, partition) and _write(
            cluster, transaction, partition, now, now_ms
        ):
            appended.append(partition)
    return appended


def settle(cluster: ModelCluster, transaction: ModelTransaction) -> None:
    """Complete the transaction if its markers are replicated."""
    for key, offset in list(transaction.markers.items()):
        topic = cluster.topics.get(key.topic)
        partition = topic.partition(key.partition) if topic is not None else None
        if partition is None or partition.log.high_watermark > offset:
            transaction.marked(key)
    if not transaction.partitions:
        transaction.complete()


def _needs_marker(transaction: ModelTransaction, partition: ModelPartition) -> bool:
    """Return whether no marker was written, or the log has lost the marker."""
    offset = transaction.markers.get(partition.key)
    return offset is None or partition.log.end_offset <= offset


def _write(
    cluster: ModelCluster,
    transaction: ModelTransaction,
    partition: ModelPartition,
    now: float,
    now_ms: int,
) -> bool:
    configs = cluster.topics[partition.key.topic].configs
    settings = configs.settings(partition.leader, now)
    needed = min(settings.min_insync_replicas, len(partition.replicas))
    if partition.leader == NO_LEADER or len(partition.isr) < needed:
        return False
    try:
        offset = partition.log.append_marker(
            transaction.producer_id,
            transaction.epoch,
            committed=transaction.commits,
            settings=settings,
            now_ms=now_ms,
        )
    except Refused:
        return False
    transaction.markers[partition.key] = offset
    for each in cluster.observers:
        each.marked(partition)
    return True


def _end_offsets(cluster: ModelCluster, transaction: ModelTransaction, key: PartitionKey) -> None:
    published = cluster.offsets_partitions[key].end(
        transaction.producer_id, transaction.epoch, commits=transaction.commits
    )
    for (group_id, committed_key), committed in published.items():
        cluster.group(group_id).offsets[committed_key] = committed
    transaction.marked(key)
