"""Metadata: versions 0-13.

Brokers are the live gateways that advertise the client's listener.  Any of them serves any
partition; leaders only spread the load and keep it in the client's zone (see `placement`).  There
are no elections, so leader epochs change only when a log is restored (state/epochs.py).  A mirrored
topic has the leader epochs of its source.

From version 9 on partitions have a tagged field of Tidegate's, with tag 10000: all gateways of the
client's zone, the recommended gateway first.  The field is absent if the client's zone is unknown
or has no gateway.  Clients skip unknown tags (KIP-482); KIP-1163 proposes a similar field.

If a name is unknown, the gateway reads the log to its end and looks again.  If the name is still
unknown, the gateway creates the topic, provided that the client and `auto.create.topics.enable`
allow it.  Differs from Kafka: a created topic is in the same answer.  (Kafka answers that the topic
is unknown, and creates it afterwards.  Group readers of kafka-go take an unknown topic for a topic
without partitions, and would not notice its creation.)  A request may create a limited number of
topics; further names get POLICY_VIOLATION.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import ClassVar, TypeAlias

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.topic_names import illegal_topic_name
from tidegate_coordination.rules.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    Created,
    NewTopic,
    Refused,
    TopicRefusal,
)
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC
from tidegate_coordination.state.records.partition_table import PartitionTable
from tidegate_coordination.state.topics import Topic, collision_key
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import metadata as wire
from tidegate_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidegate_protocol.primitives import ZERO_UUID

from ...migration.mirror.linked_names import LinkedNames
from ...network.call import Call
from ...network.turns import Turns
from ...security.operations import ALL_ON_CLUSTER, ALL_ON_TOPIC
from ...settings.broker_settings import BrokerSettings
from ...topics.client_acts import tell_act, topics_created
from ...topics.internal_topics import INTERNAL_TOPICS, offsets_topic
from ...topics.topic_creation import create_within
from ...zones.cluster_view import ClusterView, ListenerView
from ...zones.placement import NO_LEADER

FIRST_VERSION_WITH_NULL_FOR_ALL = 1
FIRST_VERSION_WITH_TOPIC_IDS = 12
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_Seen: TypeAlias = tuple[str, str | None]
"""Listener and zone."""


class PreparedTopics:
    """Answers about topics, by one view; kept until the topic or the gateways change."""

    def __init__(self, view: ListenerView, partitions: PartitionTable) -> None:
        self.view = view
        self._partitions = partitions
        self._prepared: dict[bytes, tuple[int, MetadataResponseTopic]] = {}

    async def of(self, topic: Topic, turns: Turns) -> MetadataResponseTopic:
        """Return the answer about a topic, which the caller must not change."""
        known = self._prepared.get(topic.topic_id)
        if known is not None and known[0] == topic.version:
            await turns.count()
            return known[1]
        version = topic.version
        prepared = await self._prepare(topic, turns)
        self._prepared[topic.topic_id] = (version, prepared)
        return prepared

    def forget_deleted(self, topic_count: int) -> None:
        """Drop the answers about deleted topics once there are many."""
        if len(self._prepared) > 2 * topic_count + 100:
            self._prepared.clear()

    async def _prepare(self, topic: Topic, turns: Turns) -> MetadataResponseTopic:
        """Make the answer; if the topic changes meanwhile, this may show its earlier state."""
        epochs: list[int] = []
        for number in topic.partition_numbers.copy():
            partition = self._partitions.get(number)  # None if the topic was deleted meanwhile
            epochs.append(partition.leader_epoch if partition is not None else 0)
            await turns.count()
        placements = await self.view.placements_in_turns(topic, turns)
        partitions: list[MetadataResponsePartition] = []
        for index, (epoch, placement) in enumerate(zip(epochs, placements, strict=False)):
            leader, replicas, to_produce = placement
            each = MetadataResponsePartition(
                error_code=(
                    ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE
                ),
                partition_index=index,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=replicas,
                isr_nodes=replicas,
                recommended_produce_brokers=to_produce,
            )
            partitions.append(each)
            await turns.count()
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.shown_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=partitions,
        )


@dataclass(frozen=True, slots=True)
class MetadataHandler:
    """new_topic_id: returns 16 random bytes, for auto-created topics.

    linked: matches the names that a link mirrors or will mirror; these are not auto-created.
    """

    coordinator: Coordinator
    settings: BrokerSettings
    cluster_view: ClusterView
    new_topic_id: Callable[[], bytes]
    linked: LinkedNames
    _prepared: dict[_Seen, PreparedTopics] = field(default_factory=dict["_Seen", PreparedTopics])
    api_key: ClassVar[int] = ApiKey.METADATA
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: MetadataRequest) -> MetadataResponse:
        """Answer about all topics, or about the requested ones in their order."""
        topics = request.topics
        if topics is None or (not topics and call.version < FIRST_VERSION_WITH_NULL_FOR_ALL):
            prepared = self._prepared_for(call)
            results = await self._all(prepared)
        else:
            may_create = request.allow_auto_topic_creation
            refused = await self._find_or_create(topics, call, may_create=may_create)
            prepared = self._prepared_for(call)
            results = await self._answers(topics, prepared, call, refused)
        if request.include_topic_authorized_operations:
            results = await _with_operations(results)
        response = self._without_topics(prepared.view, request)
        response.topics = results
        return response

    @property
    def _state(self) -> ClusterState:
        return self.coordinator.state

    def _prepared_for(self, call: Call) -> PreparedTopics:
        view = self.cluster_view.of_client(call)
        seen = (call.peer.listener, view.zone)
        prepared = self._prepared.get(seen)
        if prepared is None or prepared.view is not view:
            self._forget_former(view)
            prepared = self._prepared[seen] = PreparedTopics(view, self._state.partitions)
        prepared.forget_deleted(len(self._state.topics.by_id))
        return prepared

    def _forget_former(self, present: ListenerView) -> None:
        """Drop the answers for former gateways: a zone without a gateway never replaces its own."""
        version = present.gateways.version
        for seen, prepared in tuple(self._prepared.items()):
            if prepared.view.gateways.version != version:
                del self._prepared[seen]

    def _without_topics(self, view: ListenerView, request: MetadataRequest) -> MetadataResponse:
        response = MetadataResponse(
            brokers=[
                MetadataResponseBroker(each.node_id, each.host, each.port, each.rack)
                for each in view.brokers
            ],
            cluster_id=self._state.cluster_id,
            controller_id=view.controller_id,
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = ALL_ON_CLUSTER
        return response

    async def _find_or_create(
        self, asked: Sequence[MetadataRequestTopic], call: Call, *, may_create: bool
    ) -> set[str]:
        """If a topic is unknown, read the log to its end; then create topics that may be created.

        Return the names that exceed the limit of one request.
        """
        turns = Turns()
        for each in asked:
            if self._is_unknown(each):
                break
            await turns.count()
        else:
            return set()
        await self.coordinator.catch_up()
        if not (may_create and self.settings.bool("auto.create.topics.enable")):
            return set()
        topics: dict[str, NewTopic] = {}
        too_many: set[str] = set()
        for each in asked:
            is_named = each.name and each.topic_id == ZERO_UUID and self._is_unknown(each)
            if each.name and is_named and not self.linked.matches(each.name):
                # Each topic has at least one partition, so names beyond the limit would be refused
                # anyway.
                if len(topics) == MAX_PARTITIONS_PER_REQUEST and each.name not in topics:
                    too_many.add(each.name)
                elif each.name not in topics:
                    topics[each.name] = self._new_topic(each.name)
            await turns.count()
        # Names beyond the client's quota of mutations stay unknown, and clients ask again.
        quota = call.cost.mutations(is_strict=True) if call.cost is not None else None
        made = await create_within(quota, self.coordinator, self.settings, list(topics.values()))
        answers = list(zip(topics, made, strict=True))
        created = [name for name, answer in answers if isinstance(answer, Created)]
        if created:
            tell_act(call, topics_created(created))
        return too_many.union(
            name
            for name, answer in answers
            if isinstance(answer, Refused) and answer.reason is TopicRefusal.TOO_MUCH
        )

    def _new_topic(self, name: str) -> NewTopic:
        topic_id = self.new_topic_id()
        if name == OFFSETS_TOPIC:
            return offsets_topic(self.settings, topic_id)
        return NewTopic(topic_id, name)

    def _is_unknown(self, asked: MetadataRequestTopic) -> bool:
        """Return whether a topic may exist that this replica lacks; False for an illegal name."""
        if asked.topic_id != ZERO_UUID:
            return asked.topic_id not in self._state.topics.by_shown_id
        name = asked.name or ""
        return name not in self._state.topics.by_name and illegal_topic_name(name) is None

    async def _all(self, prepared: PreparedTopics) -> list[MetadataResponseTopic]:
        """Return the answers about all topics that still exist at their turn."""
        turns = Turns()
        by_id = self._state.topics.by_id
        answers: list[MetadataResponseTopic] = []
        for topic_id in tuple(by_id):
            topic = by_id.get(topic_id)
            if topic is not None:
                answers.append(await prepared.of(topic, turns))
        return answers

    async def _answers(
        self,
        asked: Iterable[MetadataRequestTopic],
        prepared: PreparedTopics,
        call: Call,
        too_much: Container[str],
    ) -> list[MetadataResponseTopic]:
        """Return all answers by one view, even if gateways change meanwhile.

        As in Kafka, a repeated name gets one answer: an answer may be 10,000 times as large as the
        request. too_much: names that exceed the limit of one request.
        """
        turns = Turns()
        answers: list[MetadataResponseTopic] = []
        answered: set[tuple[str | None, bytes]] = set()
        for each in asked:
            if (each.name, each.topic_id) in answered:
                await turns.count()
                continue
            answered.add((each.name, each.topic_id))
            topic = self._topic(each)
            if topic is None or _is_too_new(each, call.version):
                answers.append(self._refused(each, call, too_much))
                await turns.count()
            else:
                answers.append(await prepared.of(topic, turns))
        return answers

    def _topic(self, asked: MetadataRequestTopic) -> Topic | None:
        topics = self._state.topics
        if asked.topic_id != ZERO_UUID:
            return topics.by_shown_id.get(asked.topic_id)
        return topics.by_name.get(asked.name or "")

    def _refused(
        self, asked: MetadataRequestTopic, call: Call, too_much: Container[str]
    ) -> MetadataResponseTopic:
        if _is_too_new(asked, call.version):
            return MetadataResponseTopic(
                ErrorCode.INVALID_REQUEST, asked.name or "", asked.topic_id
            )
        if asked.topic_id != ZERO_UUID:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        name = asked.name or ""
        code = _code_of_unknown(name, self._state)
        if code is UNKNOWN and name in too_much:
            code = ErrorCode.POLICY_VIOLATION
        return MetadataResponseTopic(code, name)


async def _with_operations(topics: list[MetadataResponseTopic]) -> list[MetadataResponseTopic]:
    turns = Turns()
    results: list[MetadataResponseTopic] = []
    for each in topics:
        results.append(replace(each, topic_authorized_operations=ALL_ON_TOPIC))
        await turns.count()
    return results


def _is_too_new(asked: MetadataRequestTopic, version: int) -> bool:
    """Return whether a request names a topic by id, or without a name, in too old a version."""
    is_new = asked.topic_id != ZERO_UUID or asked.name is None
    return is_new and version < FIRST_VERSION_WITH_TOPIC_IDS


def _code_of_unknown(name: str, state: ClusterState) -> ErrorCode:
    """Return the error for an unknown name; a name that collides with a topic's is invalid, too.

    Kafka answers 17 for both.
    """
    collides = state.topics.by_collision_key.get(collision_key(name)) is not None
    if collides or illegal_topic_name(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
