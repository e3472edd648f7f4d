"""The mirrored partitions of a gateway, by their leaders at the source.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from tidegate_coordination.client.metadata import ClusterMetadata, topic_id_of
from tidegate_protocol.error_codes import ErrorCode

from .partition import PartitionMirror

MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""After these errors the leader may be another one."""


class Leaders:
    """The partitions by their leaders, as of one Metadata answer.

    There may be many thousands of partitions, so a fetch does not look up leaders.

    cluster_id: of the source.
    """

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._as_of: ClusterMetadata | None = None
        self._led: dict[int, dict[int, PartitionMirror]] = {}
        self._without: list[tuple[PartitionMirror, str]] = []

    def forget(self) -> None:
        """Drop the leaders: the gateway mirrors other partitions now."""
        self._as_of = None

    def look(self, metadata: ClusterMetadata, mirrors: Mapping[int, PartitionMirror]) -> None:
        """Use a Metadata answer if it is a new one.  mirrors: by number."""
        if metadata is self._as_of:
            return
        before = (number for led in self._led.values() for number in led)
        in_turn = {number: mirrors[number] for number in before if number in mirrors}
        self._as_of = metadata
        self._led = {node_id: {} for node_id in metadata.brokers}
        self._without = []
        for number, mirror in {**in_turn, **mirrors}.items():
            leader = self._leader_of(metadata, mirror)
            if isinstance(leader, str):
                self._without.append((mirror, leader))
            else:
                self._led[leader][number] = mirror

    def _leader_of(self, metadata: ClusterMetadata, mirror: PartitionMirror) -> int | str:
        """Return the leader's node id, or why it cannot be asked."""
        topic = metadata.topics.get(mirror.topic.name)
        if topic is None:
            return "the source does not name the topic"
        if topic_id_of(topic, self._cluster_id) != mirror.topic.shown_id:
            return "the source has another topic of this name now"
        partition = topic.partitions.get(mirror.index)
        if partition is None or partition.leader_id not in metadata.brokers:
            return "the partition has no leader at the source"
        return partition.leader_id

    def due(self, node_id: int, now: float, most: int) -> list[PartitionMirror]:
        """Return partitions to fetch from a broker, those that waited longest first."""
        led = self._led.get(node_id, {}).values()
        return list(islice((each for each in led if each.is_due(now)), most))

    def without(self, now: float) -> Iterator[tuple[PartitionMirror, str]]:
        """Yield the due partitions that cannot be fetched, and why."""
        return ((mirror, why) for mirror, why in self._without if mirror.is_due(now))

    def had_turn(self, node_id: int, mirror: PartitionMirror) -> None:
        """Put a partition last, so that other partitions of the broker are fetched first."""
        led = self._led.get(node_id, {})
        if led.get(mirror.number) is mirror:
            led[mirror.number] = led.pop(mirror.number)
