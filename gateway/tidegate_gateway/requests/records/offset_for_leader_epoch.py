"""OffsetForLeaderEpoch: versions 2-4.

The answer is the largest epoch up to the requested one, and its end offset.  The present epoch ends
at the high watermark, an earlier one at the begin of the next epoch.  By this answer a consumer
detects that a restored log has assigned offsets again (KIP-320); see state/epochs.py.  As in Kafka,
the answer for an unknown epoch is -1, -1.

A copy of another cluster's topic lags a moment behind, and a consumer may have read further at the
source.  So, as for a fetch, the present epoch of a copy has no end here, and for a later epoch the
consumer has to wait.  With an end of the copy the consumer would read records again.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.state.records.epochs import EpochStart
from tidegate_coordination.state.records.partitions import Partition
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_for_leader_epoch as codec
from tidegate_protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

from ...network.call import Call
from ...network.turns import Turns
from .fetch_answer import epoch_error

NO_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpoch:
    """Answers OffsetForLeaderEpoch requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    messages: ClassVar[ModuleType] = codec

    async def handle(
        self, call: Call, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        """Answer from the log's present end."""
        try:
            await self.coordinator.catch_up()
        except CoordinatorUnavailable:
            unproven = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            unproven = ErrorCode.NONE
        turns = Turns()
        response = OffsetForLeaderEpochResponse()
        for topic in request.topics:
            result = OffsetForLeaderTopicResult(topic.topic)
            response.topics.append(result)
            for each in topic.partitions:
                partition = self._partition(topic.topic, each.partition)
                is_copy = self._is_copy(topic.topic)
                result.partitions.append(_answer(each, partition, unproven, is_copy=is_copy))
                await turns.count()
        return response

    def _is_copy(self, name: str) -> bool:
        topic = self.coordinator.state.topics.by_name.get(name)
        return topic is not None and bool(topic.link)

    def _partition(self, name: str, index: int) -> Partition | None:
        state = self.coordinator.state
        topic = state.topics.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return None
        return state.partitions.get(topic.partition_numbers[index])


def _answer(
    asked: OffsetForLeaderPartition,
    partition: Partition | None,
    unproven: ErrorCode,
    *,
    is_copy: bool,
) -> EpochEndOffset:
    if unproven:
        return EpochEndOffset(unproven, asked.partition)
    if partition is None:
        return EpochEndOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.partition)
    code = epoch_error(asked.current_leader_epoch, partition)
    present = partition.leader_epoch
    if not code and is_copy and asked.leader_epoch > present:
        code = ErrorCode.UNKNOWN_LEADER_EPOCH
    end = partition.epoch_end(asked.leader_epoch)
    if is_copy and asked.leader_epoch == present:
        end = EpochStart(present, NO_END)
    if code or end is None:
        return EpochEndOffset(code, asked.partition)
    return EpochEndOffset(ErrorCode.NONE, asked.partition, *end)
