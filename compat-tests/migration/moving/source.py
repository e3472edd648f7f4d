"""The classic cluster: one broker of Apache Kafka, or three with replication factor 3."""

from __future__ import annotations

import time
from typing import Any, Final

import trio
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic
from faults.clients import PARTITIONS
from harness.kafka_cluster import NODES, KafkaCluster
from transactions.differential.wire import Request, connect

from tidegate_protocol.messages import alter_partition_reassignments as ar
from tidegate_protocol.messages import elect_leaders as el

PATIENCE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2
_NEWS_SECONDS: Final = 1.0
"""A broker that was stopped shows for a moment what it knew before."""
_PREFERRED: Final = 0
_ELECTION_NOT_NEEDED: Final = 84

Records = dict[tuple[int, int], bytes | None]
"""The values of a topic by partition and offset."""


class Source:
    """The classic cluster, and the faults of a run in it."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap
        self._replicas = len(cluster.nodes)
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topic: str) -> None:
        """Create a topic."""
        config = {"min.insync.replicas": "2"} if self._replicas == NODES else {}
        wanted = NewTopic(topic, PARTITIONS, self._replicas, config=config)
        self._admin.create_topics([wanted])[topic].result(PATIENCE_SECONDS)

    def ends(self, topic: str, bootstrap: str = "") -> list[int]:
        """Return the ends of a topic's partitions, at the source or at another cluster."""
        servers = bootstrap or self.bootstrap
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "ends"})
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30)[1]
                for each in range(PARTITIONS)
            ]
        finally:
            consumer.close()

    def records(self, topic: str, bootstrap: str = "") -> Records:
        """Return a topic's records up to its present ends at the source.

        bootstrap: another cluster to read them from.
        """
        ends = dict(enumerate(self.ends(topic)))
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap or self.bootstrap,
                "group.id": "whole",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, each, 0) for each in ends])
            return _read_to(consumer, ends)
        finally:
            consumer.close()

    def limit(self, topic: str) -> str:
        """Return the topic's max.message.bytes."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)
        return str(found["max.message.bytes"].value)

    def await_whole(self) -> None:
        """Wait until each partition has a leader, and all of its replicas are in sync.

        Raises:
          TimeoutError: a partition has no leader, or a replica out of sync.
        """
        time.sleep(_NEWS_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while missing := self._missing():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the source has not healed: {missing[:5]}")
            time.sleep(_LOOK_SECONDS)

    def _missing(self) -> list[str]:
        metadata = self._admin.list_topics(timeout=PATIENCE_SECONDS)
        if len(metadata.brokers) < self._replicas:
            return [f"brokers {sorted(metadata.brokers)}"]
        return [
            f"{name}-{index} has leader {each.leader}, in sync {each.isrs}"
            for name, topic in metadata.topics.items()
            for index, each in topic.partitions.items()
            if each.leader < 0 or len(each.isrs) < len(each.replicas)
        ]

    def move_leaders(self, topic: str) -> None:
        """Make the next one of its replicas the leader of each partition."""
        partitions = self._admin.list_topics(topic, timeout=PATIENCE_SECONDS)
        following = {
            index: [*each.replicas[1:], each.replicas[0]]
            for index, each in partitions.topics[topic].partitions.items()
        }
        trio.run(_lead, self.bootstrap.split(",")[0], topic, following)


async def _lead(bootstrap: str, topic: str, replicas: dict[int, list[int]]) -> None:
    """Reorder the replicas of partitions, and elect the first replica of each."""
    wanted = [ar.ReassignablePartition(*each) for each in replicas.items()]
    reordered = ar.AlterPartitionReassignmentsRequest(topics=[ar.ReassignableTopic(topic, wanted)])
    elected = el.ElectLeadersRequest(_PREFERRED, [el.TopicPartitions(topic, list(replicas))])
    connection = await connect(bootstrap)
    try:
        moved = await connection.call(Request("AlterPartitionReassignments", 0, reordered))
        _must_succeed(moved, [each for one in moved.responses for each in one.partitions])
        led = await connection.call(Request("ElectLeaders", 2, elected))
        _must_succeed(led, [each for one in led.replica_election_results
                            for each in one.partition_result])  # fmt: skip
    finally:
        await connection.close()


def _must_succeed(answer: Any, partitions: list[Any]) -> None:
    codes = {answer.error_code, *(each.error_code for each in partitions)}
    if codes - {0, _ELECTION_NOT_NEEDED}:
        raise RuntimeError(f"leaders do not move: {answer}")


def _read_to(consumer: Consumer, ends: dict[int, int]) -> Records:
    found: Records = {}
    left = {each for each, end in ends.items() if end}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.5):
            if message.error() is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                found[partition, offset] = message.value()
                if offset >= ends[partition] - 1:
                    left.discard(partition)
    return found
