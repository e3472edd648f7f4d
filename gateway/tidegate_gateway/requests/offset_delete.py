"""OffsetDelete: version 0 (KIP-496).

Offsets of topics that a member subscribes to stay.  What was never committed counts as deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.groups.values import Refusal
from tidegate_coordination.rules.offsets import OffsetDeletionRefusal
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_delete as messages
from tidegate_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from ..call import Call
from ..group_manager import GroupManager
from .group_errors import refusal_code

_CODES = {
    OffsetDeletionRefusal.NOT_HOLDER: ErrorCode.NOT_COORDINATOR,
    OffsetDeletionRefusal.UNKNOWN_GROUP: ErrorCode.GROUP_ID_NOT_FOUND,
    OffsetDeletionRefusal.IN_USE: ErrorCode.NON_EMPTY_GROUP,
}


@dataclass(frozen=True, slots=True)
class OffsetDelete:
    """See the module's head."""

    coordinator: Coordinator
    groups: GroupManager
    api_key: ClassVar[int] = 47
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Delete what may be deleted."""
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            await self.coordinator.catch_up()
        except CoordinatorUnavailable:
            return OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        wanted = [
            (self._topic_id(topic), partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
            if self._exists(topic, partition.partition_index)
        ]
        free = await self.groups.delete_offsets(request.group_id, wanted)
        if isinstance(free, Refusal):
            return OffsetDeleteResponse(error_code=refusal_code(free))
        if isinstance(free, OffsetDeletionRefusal):
            return OffsetDeleteResponse(error_code=_CODES[free])
        by_partition = dict(zip(wanted, free, strict=True))
        return _response(request, lambda name, index: self._code(by_partition, name, index))

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


def _response(
    request: OffsetDeleteRequest, code_of: Callable[[str, int], ErrorCode]
) -> OffsetDeleteResponse:
    topics = [
        OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponsePartition(
                    each.partition_index, code_of(topic.name, each.partition_index)
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetDeleteResponse(topics=topics)
