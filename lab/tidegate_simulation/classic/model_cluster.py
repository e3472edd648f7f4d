"""A classic cluster: brokers, topics, leaders, configs, groups.  What a controller decides.  Pure.

The nemesis calls the methods of ModelCluster; brokers read its state.  Times are passed in.
Whatever changes a partition calls `changed`, which wakes long polls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, Protocol

from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.settings import GroupSettings

from .config_history import ConfigHistory
from .log.faults import truncate
from .model_group import ModelGroup
from .model_security import ModelSecurity
from .model_topics import (
    NO_LEADER,
    CommittedOffset,
    ModelNode,
    ModelPartition,
    ModelTopic,
    PartitionKey,
)
from .model_transaction import ModelTransaction, TransactionSettings, offsets_key
from .offsets_partition import GroupKey, OffsetsPartition
from .profiles import KAFKA_4_3, Profile
from .rights import Rights
from .topic_settings import check_config

_ID_BLOCK: Final = 1000
_UUID_BYTES: Final = 16
_NO_BOUND: Final = 2**31 - 1
_GROUP_SETTINGS: Final = GroupSettings(
    max_join_bytes=_NO_BOUND, max_assignment_bytes=_NO_BOUND, max_pending_members=_NO_BOUND
)
"""Kafka's defaults, without the bounds that only Tidegate has."""


def _ignore(key: PartitionKey | None) -> None:
    pass


class Observer(Protocol):
    """Sees what clients of the cluster write."""

    def arrived(self, key: PartitionKey, raw: bytes) -> None:
        """Take a batch of a request, before it is judged."""
        ...

    def appended(self, partition: ModelPartition, raw: bytes, first_offset: int) -> None:
        """Take a batch that is in the log now, as it was sent."""
        ...

    def marked(self, partition: ModelPartition) -> None:
        """Note that the log ends with a new marker."""
        ...


class ModelCluster:
    """See the module's head.

    changed: gets the partition that changed, or None if many did.
    names: the topics' names by their ids.
    broker_configs: what DescribeConfigs answers for a broker.
    creates_topics: Metadata creates the topics that it is asked for (auto.create.topics.enable).
    group_settings: for groups that are created from now on.
    offsets_partitions: those of `__consumer_offsets`, as far as transactions need them.
    security: the ACLs, quotas and users that it shows.
    observers: see Observer.
    """

    def __init__(
        self, rng: Random, *, cluster_id: str = "classic-cluster", profile: Profile = KAFKA_4_3
    ) -> None:
        self.rng = rng
        self.cluster_id = cluster_id
        self.profile = profile
        self.nodes: dict[int, ModelNode] = {}
        self.topics: dict[str, ModelTopic] = {}
        self.names: dict[bytes, str] = {}
        self.groups: dict[str, ModelGroup] = {}
        self.transactions: dict[str, ModelTransaction] = {}
        self.transaction_settings = TransactionSettings()
        self.offsets_partitions: defaultdict[PartitionKey, OffsetsPartition]
        self.offsets_partitions = defaultdict(OffsetsPartition)
        self.rights = Rights()
        self.security = ModelSecurity()
        self.broker_configs: dict[str, str] = {"auto.create.topics.enable": "false"}
        self.creates_topics = False
        self.group_settings = _GROUP_SETTINGS
        self.observers: list[Observer] = []
        self.controller = NO_LEADER
        self.changed: Callable[[PartitionKey | None], None] = _ignore
        self._next_block = 0
        self._blocks: dict[int, range] = {}

    # -- brokers ----------------------------------------------------------------------------------

    def add_broker(self, node_id: int, host: str, port: int, *, rack: str | None = None) -> None:
        """Add a running broker; the first one is the controller."""
        self.nodes[node_id] = ModelNode(node_id, host, port, rack)
        if self.controller == NO_LEADER:
            self.controller = node_id

    @property
    def running(self) -> list[ModelNode]:
        """The brokers that metadata shows."""
        return [each for each in self.nodes.values() if each.is_up]

    def stop_broker(self, node_id: int, now: float) -> None:
        """Take a broker out: its partitions get another leader in sync, or none.

        Its groups get another coordinator, or none.
        """
        self.nodes[node_id].is_up = False
        self._blocks.pop(node_id, None)
        if self.controller == node_id:
            self.controller = next((each.node_id for each in self.running), NO_LEADER)
        for partition in self._all_partitions():
            self._leave(partition, node_id)
        self._move_groups(now)
        self.changed(None)

    def _leave(self, partition: ModelPartition, node_id: int) -> None:
        """Take a stopped broker's replica out of the ISR, and elect another leader.

        As in Kafka, the last replica stays in the ISR, so that only this replica may lead again.
        """
        if partition.isr != [node_id]:
            partition.isr = [each for each in partition.isr if each != node_id]
        if partition.leader == node_id:
            partition.set_leader(next((each for each in partition.isr if self._is_up(each)), -1))

    def start_broker(self, node_id: int, now: float) -> None:
        """Let a broker come back, in sync at once; partitions without a leader get one."""
        self.nodes[node_id].is_up = True
        for partition in self._all_partitions():
            if node_id not in partition.replicas:
                continue
            if partition.leader == NO_LEADER and node_id in partition.isr:
                partition.set_leader(node_id)
            if node_id not in partition.isr and partition.leader != NO_LEADER:
                partition.isr.append(node_id)
        self._move_groups(now)
        self.changed(None)

    def _is_up(self, node_id: int) -> bool:
        node = self.nodes.get(node_id)
        return node is not None and node.is_up

    def _all_partitions(self) -> list[ModelPartition]:
        return [each for topic in self.topics.values() for each in topic.partitions]

    # -- topics -----------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> ModelTopic:
        """Create a topic; leaders go round the brokers.

        Raises:
          InvalidConfig: see topic_settings.
          ValueError: the name is taken.
        """
        if name in self.topics:
            raise ValueError(f"topic {name} exists")
        for each, value in (configs or {}).items():
            check_config(each, value)
        topic = ModelTopic(name, self.rng.randbytes(_UUID_BYTES), ConfigHistory(configs or {}))
        self.topics[name] = topic
        self.names[topic.topic_id] = name
        self._add_partitions(topic, partitions, replication_factor)
        return topic

    def add_partitions(self, name: str, count: int) -> None:
        """Raise the number of a topic's partitions to count."""
        topic = self.topics[name]
        factor = len(topic.partitions[0].replicas)
        self._add_partitions(topic, count - len(topic.partitions), factor)

    def _add_partitions(self, topic: ModelTopic, count: int, replication_factor: int) -> None:
        node_ids = [each.node_id for each in self.running]
        for _ in range(count):
            index = len(topic.partitions)
            turned = [
                node_ids[(index + turn) % len(node_ids)] for turn in range(replication_factor)
            ]
            key = PartitionKey(topic.name, index)
            topic.partitions.append(ModelPartition(key, turned, list(turned), turned[0]))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and what groups committed for it."""
        del self.names[self.topics.pop(name).topic_id]
        for group in self.groups.values():
            group.offsets = {key: each for key, each in group.offsets.items() if key.topic != name}
        for each in self.offsets_partitions.values():
            each.forget_topic(name)
        self.changed(None)

    def recreate_topic(self, name: str) -> ModelTopic:
        """Delete a topic, and make one of the same name, size and configs with another id."""
        before = self.topics[name]
        count, factor = len(before.partitions), len(before.partitions[0].replicas)
        self.delete_topic(name)
        return self.create_topic(
            name, count, replication_factor=factor, configs=before.configs.latest
        )

    def topic_named(self, topic_id: bytes) -> ModelTopic | None:
        """Return the topic with an id."""
        name = self.names.get(topic_id)
        return self.topics[name] if name is not None else None

    def partition(self, topic: str, index: int) -> ModelPartition:
        """Return a partition that exists.

        Raises:
          KeyError: it does not.
        """
        found = self.topics[topic].partition(index)
        if found is None:
            raise KeyError(f"{topic}-{index}")
        return found

    # -- leaders and replicas ---------------------------------------------------------------------

    def move_leader(self, topic: str, index: int, node_id: int) -> None:
        """Let another replica lead, with a new epoch.

        Raises:
          ValueError: it is no replica in sync.
        """
        partition = self.partition(topic, index)
        if node_id not in partition.isr:
            raise ValueError(f"broker {node_id} is not in sync")
        partition.set_leader(node_id)
        self.changed(partition.key)

    def elect_unclean(self, topic: str, index: int, node_id: int, end_offset: int) -> None:
        """Let a replica lead whose log ends at end_offset; the records after it are lost."""
        partition = self.partition(topic, index)
        truncate(partition.log, end_offset)
        partition.isr = [node_id]
        partition.set_leader(node_id)
        partition.log.raise_high_watermark(partition.log.end_offset)
        self.changed(partition.key)

    def set_isr(self, topic: str, index: int, isr: Sequence[int]) -> None:
        """Shrink or grow the replicas in sync; the leader must stay among them."""
        partition = self.partition(topic, index)
        partition.isr = list(isr)
        self.changed(partition.key)

    def hold_watermark(self, topic: str, index: int) -> None:
        """Let the followers fetch nothing: the high watermark stays."""
        self.partition(topic, index).is_held = True

    def release_watermark(self, topic: str, index: int) -> None:
        """Let the followers fetch everything."""
        partition = self.partition(topic, index)
        partition.is_held = False
        self.replicated(partition, partition.log.end_offset)

    def replicated(self, partition: ModelPartition, offset: int) -> None:
        """Note that the followers have what lies before an offset."""
        if not partition.is_held:
            partition.log.raise_high_watermark(offset)
        self.changed(partition.key)

    # -- configs ----------------------------------------------------------------------------------

    def set_config(self, topic: str, name: str, value: str | None, now: float) -> None:
        """Change one config, or remove it; see set_configs()."""
        configs = self.topics[topic].configs.latest
        configs.pop(name, None)
        if value is not None:
            configs[name] = value
        self.set_configs(topic, configs, now)

    def set_configs(self, topic: str, configs: Mapping[str, str], now: float) -> None:
        """Replace a topic's configs; each broker sees them after its delay.

        Raises:
          InvalidConfig: nothing was changed.
        """
        for name, value in configs.items():
            check_config(name, value)
        seen_from = {each.node_id: now + each.config_delay_seconds for each in self.nodes.values()}
        self.topics[topic].configs.change(configs, seen_from)

    # -- producers and groups ---------------------------------------------------------------------

    def next_producer_id(self, node_id: int) -> int:
        """Return an id out of the broker's block of a thousand."""
        block = self._blocks.get(node_id) or range(0)
        if not block:
            block = range(self._next_block, self._next_block + _ID_BLOCK)
            self._next_block += _ID_BLOCK
        self._blocks[node_id] = block[1:]
        return block[0]

    def coordinator_of(self, key: str) -> int:
        """Return the broker that coordinates a group or a transactional id; NO_LEADER for none."""
        nodes = [each.node_id for each in self.running]
        return nodes[sum(key.encode()) % len(nodes)] if nodes else NO_LEADER

    def _move_groups(self, now: float) -> None:
        for group in self.groups.values():
            coordinator = self.coordinator_of(group.group_id)
            if coordinator != group.coordinator:
                group.move(coordinator, now)

    def group(self, group_id: str) -> ModelGroup:
        """Return a group; create an unknown one."""
        found = self.groups.get(group_id)
        if found is None:
            machine = ClassicGroup(group_id, 0, self.group_settings)
            found = self.groups[group_id] = ModelGroup(machine, self.coordinator_of(group_id))
        return found

    def commit_offset(self, group_id: str, key: PartitionKey, committed: CommittedOffset) -> None:
        """Store a group's offset; the first offset of an unknown group creates the group."""
        self.group(group_id).offsets[key] = committed
        self.offsets_partitions[offsets_key(group_id)].committed(GroupKey(group_id, key))

    def delete_group(self, group_id: str) -> None:
        """Delete a group, and what it committed."""
        del self.groups[group_id]
        self.offsets_partitions[offsets_key(group_id)].forget_group(group_id)

    def delete_offset(self, group_id: str, key: PartitionKey) -> None:
        """Delete the offsets that a group committed for a partition, in open transactions, too."""
        self.groups[group_id].offsets.pop(key, None)
        self.offsets_partitions[offsets_key(group_id)].forget(GroupKey(group_id, key))

    def begin_loading(self, group_id: str, now: float) -> None:
        """Let a group's coordinator read its log, as after a move; see ModelGroup."""
        self.groups[group_id].begin_loading(now)
        self.changed(None)

    def end_loading(self, group_id: str, now: float) -> None:
        """Let a group's coordinator have read its log."""
        self.groups[group_id].end_loading(now)
