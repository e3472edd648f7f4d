"""DeleteRecords: versions 0-2.

Records of internal topics stay, as in Kafka.  Differs from Kafka: any gateway answers for any
partition, at once; timeout_ms is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.rules.records.deletions import (
    HIGH_WATERMARK,
    DeleteRecords,
    Deletion,
    DeletionRefusal,
)
from tidegate_coordination.state.topics import Topic
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_records as wire
from tidegate_protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

from ...network.call import Call
from ...network.turns import Turns
from ...topics.internal_topics import INTERNAL_TOPICS
from ...topics.looks import Look
from ..topics.known_partitions import partition_exists

PARTITIONS_PER_PROPOSAL = 2_000
NO_LOW_WATERMARK = -1

_CODES = {
    DeletionRefusal.UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    DeletionRefusal.OUT_OF_RANGE: ErrorCode.OFFSET_OUT_OF_RANGE,
    DeletionRefusal.POLICY: ErrorCode.POLICY_VIOLATION,
    DeletionRefusal.MIRRORED: ErrorCode.POLICY_VIOLATION,
    DeletionRefusal.REVERSING: ErrorCode.POLICY_VIOLATION,
}


@dataclass(frozen=True, slots=True)
class DeleteRecordsHandler:
    """Answers DeleteRecords requests."""

    coordinator: Coordinator
    cluster: ClusterSettings
    api_key: ClassVar[int] = ApiKey.DELETE_RECORDS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        """Answer each partition with its new low watermark."""
        turns = Turns()
        deletions: list[Deletion] = []
        for topic in request.topics:
            for each in topic.partitions:
                deletions.append(Deletion(topic.name, each.partition_index, each.offset))
                await turns.count()
        answers = iter(await self._delete(deletions))
        response = DeleteRecordsResponse()
        for topic in request.topics:
            result = DeleteRecordsTopicResult(topic.name)
            response.topics.append(result)
            is_internal = topic.name in INTERNAL_TOPICS
            for each in topic.partitions:
                index = each.partition_index
                row = self._kept(topic.name, index) if is_internal else _row(index, next(answers))
                result.partitions.append(row)
                await turns.count()
        return response

    def _kept(self, name: str, index: int) -> DeleteRecordsPartitionResult:
        """Return the refusal of a partition of an internal topic."""
        is_known = partition_exists(self.coordinator.state.topics, name, index)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_known else unknown
        return DeleteRecordsPartitionResult(index, NO_LOW_WATERMARK, code)

    async def _delete(self, deletions: list[Deletion]) -> list[int | DeletionRefusal]:
        """Delete below the present offsets, since records that are acknowledged later must stay.

        The result has no answers for internal topics.
        """
        look = Look(self.coordinator)
        await look.take({each.topic for each in deletions})
        wanted = [each for each in deletions if each.topic not in INTERNAL_TOPICS]
        # for all partitions, before the first proposal
        known = await self._with_offsets(look, wanted)
        answers: list[int | DeletionRefusal] = []
        policy = self.cluster.default_of("cleanup.policy")
        for first in range(0, len(known), PARTITIONS_PER_PROPOSAL):
            part = known[first : first + PARTITIONS_PER_PROPOSAL]
            topic_ids = look.topic_ids(each.topic for each in part)
            answers += await look.told(DeleteRecords(part, policy, topic_ids))
        return answers

    async def _with_offsets(self, look: Look, deletions: list[Deletion]) -> list[Deletion]:
        """Replace HIGH_WATERMARK by the present end of each partition."""
        turns = Turns()
        known: list[Deletion] = []
        for each in deletions:
            if each.before_offset == HIGH_WATERMARK:
                end = self._end(look.topic(each.topic), each.partition)
                known.append(each._replace(before_offset=end))
            else:
                known.append(each)
            await turns.count()
        return known

    def _end(self, topic: Topic | None, index: int) -> int:
        """Return a partition's end; 0 if it does not exist.

        So if a partition is created later, it loses no record.
        """
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return 0
        partition = self.coordinator.state.partitions.get(topic.partition_numbers[index])
        return partition.next_offset if partition is not None else 0


def _row(partition: int, answer: int | DeletionRefusal) -> DeleteRecordsPartitionResult:
    if isinstance(answer, DeletionRefusal):
        return DeleteRecordsPartitionResult(partition, NO_LOW_WATERMARK, _CODES[answer])
    return DeleteRecordsPartitionResult(partition, answer)
