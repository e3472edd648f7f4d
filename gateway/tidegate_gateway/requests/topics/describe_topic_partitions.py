"""DescribeTopicPartitions: version 0 (KIP-966).

Topics are sorted by name.  An answer holds at most as many partitions as the client or
`max.request.partition.size.limit` allow; its cursor says where the next answer begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.topic_names import illegal_topic_name
from tidegate_coordination.state.records.partition_table import PartitionTable
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_topic_partitions as wire
from tidegate_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

from ...network.call import Call
from ...network.turns import Turns, in_order
from ...security.operations import ALL_ON_TOPIC
from ...settings.broker_settings import BrokerSettings
from ...topics.internal_topics import INTERNAL_TOPICS
from ...zones.cluster_view import ClusterView, ListenerView
from ...zones.placement import NO_LEADER


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsHandler:
    """Answers DescribeTopicPartitions requests."""

    coordinator: Coordinator
    settings: BrokerSettings
    cluster_view: ClusterView
    api_key: ClassVar[int] = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: DescribeTopicPartitionsRequest
    ) -> DescribeTopicPartitionsResponse:
        """Describe the requested topics, or all topics if none is named, from the cursor on."""
        if _is_wrong(request):
            return _refused(request)
        known = self.coordinator.state.topics.by_name
        names = {each.name for each in request.topics}
        if any(name not in known for name in names):
            await self.coordinator.catch_up()
        limit = self.settings.int("max.request.partition.size.limit")
        room = max(min(limit, request.response_partition_limit), 1)
        view = self.cluster_view.of_client(call)
        page = _Page(view, self.coordinator.state.partitions, room)
        cursor = request.cursor
        start = cursor.topic_name if cursor is not None else ""
        turns = Turns()
        for name in await in_order(tuple(names or known), turns):
            if name < start:
                continue
            first = cursor.partition_index if cursor is not None and name == start else 0
            topic = known.get(name)
            if topic is not None and page.has_room:
                await view.placements_in_turns(topic, turns)
                topic = known.get(name)  # it may be deleted since the last turn
            if topic is None and not names:
                continue
            if not page.add(name, topic, first):
                break
            await turns.count(1 + len(topic.partition_numbers) if topic is not None else 1)
        return page.response


class _Page:
    """An answer that is being filled."""

    def __init__(self, view: ListenerView, partitions: PartitionTable, room: int) -> None:
        self._view = view
        self._partitions = partitions
        self._room = room
        self.response = DescribeTopicPartitionsResponse()

    @property
    def has_room(self) -> bool:
        """Return whether another partition fits."""
        return self._room > 0

    def add(self, name: str, topic: Topic | None, first: int) -> bool:
        """Add a topic's partitions from `first` on; False once the page is full."""
        if not self._room:
            return self._end(name, 0)
        if topic is None:
            self.response.topics.append(_unknown(name))
            return True
        end = min(len(topic.partition_numbers), first + self._room)
        self.response.topics.append(self._topic(topic, range(first, end)))
        if end < len(topic.partition_numbers):
            return self._end(name, end)
        self._room -= max(end - first, 0)
        return True

    def _end(self, name: str, partition: int) -> bool:
        self.response.next_cursor = DescribeTopicPartitionsResponseCursor(name, partition)
        return False

    def _topic(self, topic: Topic, indexes: Sequence[int]) -> DescribeTopicPartitionsResponseTopic:
        placements = self._view.placements(topic)
        partitions: list[DescribeTopicPartitionsResponsePartition] = []
        for index in indexes:
            leader, replicas, _ = placements[index]
            partitions.append(
                DescribeTopicPartitionsResponsePartition(
                    error_code=(
                        ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE
                    ),
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=self._partitions[topic.partition_numbers[index]].leader_epoch,
                    replica_nodes=replicas,
                    isr_nodes=replicas,
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                )
            )
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.shown_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=partitions,
            topic_authorized_operations=ALL_ON_TOPIC,
        )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if illegal_topic_name(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=ALL_ON_TOPIC
    )


def _is_wrong(request: DescribeTopicPartitionsRequest) -> bool:
    """Return whether a cursor names a topic that is not requested, or a negative partition."""
    cursor = request.cursor
    if cursor is None:
        return False
    names = {each.name for each in request.topics}
    return cursor.partition_index < 0 or bool(names and cursor.topic_name not in names)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=each.name
            )
            for each in request.topics
        ]
    )
