"""The source of a run's link: a model of a classic cluster, and all that it ever stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Final

import trio

from tidegate_coordination.client.properties.client import ClientProperties
from tidegate_coordination.client.wire.dialling import Dial

from ..checks.history import History
from ..classic.dial import ClassicServers, open_servers
from ..classic.model_cluster import ModelCluster
from ..classic.model_topics import ModelPartition, PartitionKey
from ..classic.profiles import KAFKA_4_3, MEMBERS_APIS, TRANSACTION_APIS
from ..classic.topic_settings import TopicSettings
from ..clients.workload import Key
from .forward_journal import ForwardJournal
from .spoilt_batches import SpoiltBatches

HOST: Final = "broker-{}.source"
PORT: Final = 9092
LINK: Final = "src"
UNIT_TOPIC: Final = "mirrored"
TOPICS: Final = {UNIT_TOPIC: 2, "mirrored-compact": 1}
PATTERN: Final = "mirrored.*"
MAX_TOPICS: Final = 4
# For runs without members, or without transactional ids, at the source.  A longer ApiVersions
# answer would cross the network in other pieces, so that the same seeds would give other runs.
_WITHOUT_TRANSACTIONS: Final = KAFKA_4_3.without(TRANSACTION_APIS)
_WITHOUT_MEMBERS: Final = _WITHOUT_TRANSACTIONS.without(MEMBERS_APIS)
_EPOCH_AT: Final = 12
_EPOCH_BYTES: Final = 4


class Source:
    """See the module's head.

    servers: its brokers.  journal: the forwarded batches.  keys: see group_clients.py.
    spoilt: its malformed batches.
    transactions: what clients of its transactional ids did; see transaction_clients.py.
    """

    def __init__(
        self,
        brokers: int,
        rng: Random,
        config_seconds: float = 0.0,
        *,
        has_groups: bool = False,
        has_transactions: bool = False,
    ) -> None:
        profile = _WITHOUT_TRANSACTIONS if has_groups else _WITHOUT_MEMBERS
        profile = KAFKA_4_3 if has_transactions else profile
        self.cluster: Final = ModelCluster(rng, cluster_id="source-cluster", profile=profile)
        self.rng: Final = rng
        self.servers: ClassicServers
        self.journal: Final = ForwardJournal()
        self.keys: Final[list[Key]] = []
        self.spoilt: Final = SpoiltBatches()
        self.transactions: Final = History(trio.current_time)
        self.cluster.observers += [self, self.journal]
        self._ever: Final[defaultdict[tuple[bytes, int], dict[int, set[bytes]]]] = defaultdict(dict)
        for node_id in range(1, brokers + 1):
            self.cluster.add_broker(node_id, HOST.format(node_id), PORT)
            lag = rng.uniform(0, config_seconds)
            self.cluster.nodes[node_id].config_delay_seconds = lag
        for name, partitions in TOPICS.items():
            self.create_topic(name, partitions)

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers, as the link has them."""
        return ",".join(f"{HOST.format(each)}:{PORT}" for each in self.cluster.nodes)

    def run(self) -> AbstractAsyncContextManager[ClassicServers]:
        """Run the brokers; set `servers` to what it yields."""
        return open_servers(self.cluster, self.rng)

    def dial_of(self, _: ClientProperties) -> Dial:
        """Return the function that connects to the brokers."""
        return self._dial

    async def _dial(self, host: str, port: int) -> trio.abc.Stream:
        return await self.servers.dial(host, port)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic that the link mirrors."""
        factor = min(3, len(self.cluster.nodes))
        self.cluster.create_topic(name, partitions, replication_factor=factor)

    def partitions(self) -> Iterator[tuple[bytes, ModelPartition]]:
        """Yield all partitions, each with its topic's id."""
        for topic in self.cluster.topics.values():
            for partition in topic.partitions:
                yield topic.topic_id, partition

    def settings_of(self, partition: ModelPartition) -> TopicSettings:
        """Return the settings that the partition's leader applies now."""
        configs = self.cluster.topics[partition.key.topic].configs
        return configs.settings(partition.leader, trio.current_time())

    def remember(self, topic_id: bytes, partition: ModelPartition) -> None:
        """Note all batches that a partition holds now; call it after each change."""
        ever = self._ever[topic_id, partition.key.partition]
        for batch in partition.log.batches:
            ever.setdefault(batch.header.base_offset, set()).add(bytes(batch.raw))

    def arrived(self, key: PartitionKey, raw: bytes) -> None:
        """See Observer."""

    def appended(self, partition: ModelPartition, raw: bytes, first_offset: int) -> None:
        """See Observer."""
        self.remember(self.cluster.topics[partition.key.topic].topic_id, partition)

    def marked(self, partition: ModelPartition) -> None:
        """See Observer."""
        self.remember(self.cluster.topics[partition.key.topic].topic_id, partition)

    def batches_between(self, topic_id: bytes, index: int, start: int, end: int) -> list[int]:
        """Return the offsets of the partition's present batches within [start, end)."""
        topic = self.cluster.topic_named(topic_id)
        partition = topic.partition(index) if topic is not None else None
        if partition is None:
            return []
        bases = (each.header.base_offset for each in partition.log.batches)
        return [base for base in bases if start <= base < end]

    def ever_held(self, topic_id: bytes, index: int, offset: int, raw: bytes) -> bool:
        """Return whether the partition ever held this batch at the offset.

        A batch that was written here first has this cluster's leader epoch, which is ignored.
        """
        ever = self._ever[topic_id, index].get(offset, set())
        topic = self.cluster.topic_named(topic_id)
        if topic is None or not self.journal.was_here(PartitionKey(topic.name, index), offset):
            return raw in ever
        return _without_epoch(raw) in map(_without_epoch, ever)

    def not_returned(self, topic_id: bytes, index: int) -> list[int]:
        """Return the offsets of batches that were committed here, and are not at the source."""
        topic = self.cluster.topic_named(topic_id)
        return self.journal.not_returned(PartitionKey(topic.name, index)) if topic else []

    def appended_here(self, topic_id: bytes, index: int, raw: bytes, offset: int) -> None:
        """Take a batch that was committed to a switched topic."""
        topic = self.cluster.topic_named(topic_id)
        if topic is not None:
            self.journal.appended_here(PartitionKey(topic.name, index), raw, offset)


def _without_epoch(raw: bytes) -> bytes:
    return raw[:_EPOCH_AT] + raw[_EPOCH_AT + _EPOCH_BYTES :]
