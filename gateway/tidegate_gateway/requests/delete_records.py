"""DeleteRecords: versions 0-2.

Differs from Kafka: any gateway answers for any partition, at once; timeout_ms is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.rules.topics import DeleteRecords, Deletion, DeletionRefusal
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_records as wire
from tidegate_protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from ..broker_settings import BrokerSettings
from ..call import Call

PARTITIONS_PER_PROPOSAL = 10_000
NO_LOW_WATERMARK = -1

_CODES = {
    DeletionRefusal.UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    DeletionRefusal.OUT_OF_RANGE: ErrorCode.OFFSET_OUT_OF_RANGE,
    DeletionRefusal.POLICY: ErrorCode.POLICY_VIOLATION,
}


@dataclass(frozen=True, slots=True)
class DeleteRecordsHandler:
    """See the module's head."""

    coordinator: Coordinator
    settings: BrokerSettings
    api_key: ClassVar[int] = 21
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        """Answer each partition with its new low watermark."""
        deletions = [
            Deletion(topic.name, each.partition_index, each.offset)
            for topic in request.topics
            for each in topic.partitions
        ]
        answers = iter(await self._delete(deletions))
        topics = [
            DeleteRecordsTopicResult(
                topic.name,
                [_result(each.partition_index, next(answers)) for each in topic.partitions],
            )
            for topic in request.topics
        ]
        return DeleteRecordsResponse(topics=topics)

    async def _delete(self, deletions: list[Deletion]) -> list[int | DeletionRefusal]:
        answers: list[int | DeletionRefusal] = []
        layers = self.settings.layers(self.coordinator.state.configs)
        policy = layers.text("log.cleanup.policy") or ""
        for first in range(0, len(deletions), PARTITIONS_PER_PROPOSAL):
            part = deletions[first : first + PARTITIONS_PER_PROPOSAL]
            answers += await self.coordinator.propose(DeleteRecords(part, policy))
        return answers


def _result(partition: int, answer: int | DeletionRefusal) -> DeleteRecordsPartitionResult:
    if isinstance(answer, DeletionRefusal):
        return DeleteRecordsPartitionResult(partition, NO_LOW_WATERMARK, _CODES[answer])
    return DeleteRecordsPartitionResult(partition, answer)
