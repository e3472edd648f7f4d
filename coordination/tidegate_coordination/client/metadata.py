"""A cluster as Metadata describes it, and how a newer answer changes that.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from tidegate_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidegate_protocol.primitives import ZERO_UUID

from .errors import AnotherCluster
from .properties.client import Address

NO_NODE: Final = -1
_UUID_BYTES: Final = 16
# From version 4 on a request can forbid that brokers create the topics (Kafka 0.11).
MIN_METADATA_VERSION: Final = 4


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, at its address for clients of the listener that was asked."""

    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition.

    Attributes:
      leader_id: NO_NODE for none.
      leader_epoch: -1 if the broker does not say (before Kafka 2.1).
      error_code: LEADER_NOT_AVAILABLE and the like; 0 for none.
    """

    index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic.

    Attributes:
      topic_id: None if the broker does not say (before Kafka 2.8).
      error_code: UNKNOWN_TOPIC_OR_PARTITION and the like; 0 for none.
    """

    name: str
    topic_id: bytes | None
    is_internal: bool
    partitions: Mapping[int, Partition]
    error_code: int = 0


def topic_id_of(topic: Topic, cluster_id: str) -> bytes:
    """Return a topic's id; before Kafka 2.8 topics have none, so make one of the name."""
    if topic.topic_id is not None:
        return topic.topic_id
    return sha256(f"{cluster_id}/{topic.name}".encode()).digest()[:_UUID_BYTES]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """All that is known of a cluster.

    Attributes:
      cluster_id: None before the first answer, and if the brokers do not say.
      controller_id: NO_NODE for none.  With KRaft it is any broker, which forwards requests.
      fetched_at: time of the last answer, in seconds of the clock of the caller.
      whole_at: the time of the last answer about all topics.
    """

    cluster_id: str | None = None
    controller_id: int = NO_NODE
    brokers: Mapping[int, Broker] = field(default_factory=dict[int, Broker])
    topics: Mapping[str, Topic] = field(default_factory=dict[str, Topic])
    fetched_at: float = float("-inf")
    whole_at: float = float("-inf")

    def leader_of(self, topic: str, index: int) -> int | None:
        """Return the broker that leads a partition; None if it is not known."""
        known = self.topics.get(topic)
        partition = known.partitions.get(index) if known is not None else None
        leader = NO_NODE if partition is None else partition.leader_id
        return leader if leader in self.brokers else None


def metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    """Return a request for the named topics, or for all if None."""
    wanted = None if topics is None else [MetadataRequestTopic(name=each) for each in topics]
    return MetadataRequest(wanted, allow_auto_topic_creation=False)


def updated(
    known: ClusterMetadata, response: MetadataResponse, *, is_whole: bool, now: float
) -> ClusterMetadata:
    """Return the cluster's metadata with an answer taken in.

    Args:
      is_whole: the answer is about all topics, so topics that it does not name were deleted.

    Raises:
      AnotherCluster: the answer is from another cluster than earlier ones.
    """
    if known.cluster_id and response.cluster_id and known.cluster_id != response.cluster_id:
        raise AnotherCluster(
            f"the brokers belong to cluster {response.cluster_id}, and before to"
            f" {known.cluster_id}: check bootstrap.servers."
        )
    told = {each.name: _topic(each.name, each) for each in response.topics if each.name}
    kept = {name: _newest(known.topics.get(name), each) for name, each in told.items()}
    return ClusterMetadata(
        response.cluster_id or known.cluster_id,
        response.controller_id,
        {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack)
            for each in response.brokers
        },
        kept if is_whole else {**known.topics, **kept},
        now,
        now if is_whole else known.whole_at,
    )


def _topic(name: str, told: MetadataResponseTopic) -> Topic:
    topic_id = None if told.topic_id == ZERO_UUID else told.topic_id
    partitions = {each.partition_index: _partition(each) for each in told.partitions}
    return Topic(name, topic_id, told.is_internal, partitions, told.error_code)


def _partition(told: MetadataResponsePartition) -> Partition:
    return Partition(
        told.partition_index,
        told.leader_id,
        told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
        told.error_code,
    )


def _newest(known: Topic | None, told: Topic) -> Topic:
    """Return the topic of an answer, but keep known partitions with a higher leader epoch.

    Brokers get the news of a leader change at different times, so an answer may be older than an
    earlier one. A topic that was made again has another id, and starts with low epochs.
    """
    if known is None or told.error_code or known.topic_id != told.topic_id:
        return told
    partitions = {
        index: _newer(known.partitions.get(index), each) for index, each in told.partitions.items()
    }
    return replace(told, partitions=partitions)


def _newer(known: Partition | None, told: Partition) -> Partition:
    if known is None or told.leader_epoch < 0 or told.leader_epoch >= known.leader_epoch:
        return told
    return known
