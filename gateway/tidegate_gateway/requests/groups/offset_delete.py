"""OffsetDelete: version 0 (KIP-496).

Offsets of topics to which a member subscribes are not deleted.  An offset that was never committed
counts as deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.groups.values import Refusal
from tidegate_coordination.rules.consumer_groups.offsets import OffsetDeletionRefusal
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_delete as messages
from tidegate_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from ...groups.group_manager import GroupManager
from ...network.call import Call
from ...network.turns import Turns
from .group_errors import refusal_code

# The limit of one proposal, since the event of very many offsets would not fit into a log entry.
# If a later part is refused, the earlier deletions stay, and the client may repeat the request.
OFFSETS_AT_ONCE: Final = 2_000
_CODES = {
    OffsetDeletionRefusal.NOT_HOLDER: ErrorCode.NOT_COORDINATOR,
    OffsetDeletionRefusal.UNKNOWN_GROUP: ErrorCode.GROUP_ID_NOT_FOUND,
    OffsetDeletionRefusal.IN_USE: ErrorCode.NON_EMPTY_GROUP,
}


@dataclass(frozen=True, slots=True)
class OffsetDelete:
    """Answers OffsetDelete requests."""

    coordinator: Coordinator
    groups: GroupManager
    api_key: ClassVar[int] = ApiKey.OFFSET_DELETE
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Delete the offsets that may be deleted."""
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            await self.coordinator.catch_up()
        except CoordinatorUnavailable:
            return OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        turns = Turns()
        wanted: list[tuple[bytes, int]] = []
        for topic in request.topics:
            for partition in topic.partitions:
                if self._exists(topic, partition.partition_index):
                    wanted.append((self._topic_id(topic), partition.partition_index))
                await turns.count()
        by_partition: dict[tuple[bytes, int], bool] = {}
        for first in range(0, max(len(wanted), 1), OFFSETS_AT_ONCE):
            part = wanted[first : first + OFFSETS_AT_ONCE]
            free = await self.groups.delete_offsets(request.group_id, part)
            if isinstance(free, Refusal):
                return OffsetDeleteResponse(error_code=refusal_code(free))
            if isinstance(free, OffsetDeletionRefusal):
                return OffsetDeleteResponse(error_code=_CODES[free])
            by_partition.update(zip(part, free, strict=True))
        return await self._response(request, by_partition, turns)

    def _topic(self, name: str) -> Topic | None:
        return self.coordinator.state.topics.by_name.get(name)

    def _topic_id(self, topic: OffsetDeleteRequestTopic) -> bytes:
        known = self._topic(topic.name)
        return known.topic_id if known is not None else b""

    def _exists(self, topic: OffsetDeleteRequestTopic, index: int) -> bool:
        known = self._topic(topic.name)
        return known is not None and 0 <= index < len(known.partition_numbers)

    def _code(self, free: dict[tuple[bytes, int], bool], name: str, index: int) -> ErrorCode:
        topic = self._topic(name)
        is_free = free.get((topic.topic_id, index)) if topic is not None else None
        if is_free is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE if is_free else ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    async def _response(
        self, request: OffsetDeleteRequest, free: dict[tuple[bytes, int], bool], turns: Turns
    ) -> OffsetDeleteResponse:
        response = OffsetDeleteResponse()
        for topic in request.topics:
            answered = OffsetDeleteResponseTopic(topic.name)
            response.topics.append(answered)
            for each in topic.partitions:
                code = self._code(free, topic.name, each.partition_index)
                one = OffsetDeleteResponsePartition(each.partition_index, code)
                answered.partitions.append(one)
                await turns.count()
        return response
