"""TxnOffsetCommit: versions 0-5.

The offsets are staged: they count once the transaction commits.  The holder of the group's claim
checks the member, as it alone knows a rebalance under way; the log's rules check the producer.
Differs from Kafka: all offsets of a request are staged, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.groups.values import MemberIdentity, Refusal
from tidegate_coordination.rules.consumer_groups.offsets import OffsetToCommit, partition_exists
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import txn_offset_commit as wire
from tidegate_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from ...groups.group_manager import GroupManager
from ...network.call import Call
from ...transactions.steps import ProducerName, TransactionSteps
from ..groups.group_errors import refusal_code as group_refusal_code
from .errors import UNAVAILABLE, refusal_code

MAY_ADD_SINCE: Final = 5
KNOWS_ABORTABLE_SINCE: Final = 4
_NO_TOPIC: Final = b""


@dataclass(frozen=True, slots=True)
class TxnOffsetCommit:
    """See the module's head."""

    coordinator: Coordinator
    groups: GroupManager
    steps: TransactionSteps
    api_key: ClassVar[int] = ApiKey.TXN_OFFSET_COMMIT
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        """Stage the partitions without an error."""
        count = sum(len(topic.partitions) for topic in request.topics)
        if not request.transactional_id:
            return _response(request, iter([ErrorCode.INVALID_REQUEST] * count))
        try:
            offsets = await self._offsets(request)
        except CoordinatorUnavailable:
            return _response(request, iter([UNAVAILABLE] * count))
        codes = [self._code(each) for each in offsets]
        good = [o for o, code in zip(offsets, codes, strict=True) if code is ErrorCode.NONE]
        answer = await self._stage(call, request, good)
        if isinstance(answer, ErrorCode):
            return _response(request, iter([answer] * count))
        taken = iter(answer)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        settled = [
            code if code is not ErrorCode.NONE else (code if next(taken) else unknown)
            for code in codes
        ]
        return _response(request, iter(settled))

    async def _stage(
        self, call: Call, request: TxnOffsetCommitRequest, offsets: Sequence[OffsetToCommit]
    ) -> list[bool] | ErrorCode:
        producer = ProducerName(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        may_add = call.version >= MAY_ADD_SINCE
        try:
            began = 0 if may_add else await self.steps.began(call, request.transactional_id)
            answer = await self.groups.stage(
                request.group_id,
                MemberIdentity(request.member_id, request.group_instance_id),
                request.generation_id,
                offsets,
                producer,
                may_add=may_add,
                began=began,
            )
        except ProposalFailed:
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        except CoordinatorUnavailable:
            return UNAVAILABLE
        if isinstance(answer, Refusal):
            return group_refusal_code(answer)
        if isinstance(answer, TransactionRefusal):
            # This request never learnt PRODUCER_FENCED.
            knows_abortable = call.version >= KNOWS_ABORTABLE_SINCE
            return refusal_code(answer, knows_fenced=False, knows_abortable=knows_abortable)
        return answer

    async def _offsets(self, request: TxnOffsetCommitRequest) -> list[OffsetToCommit]:
        offsets = self._offsets_here(request)
        if any(self._code(each) is not ErrorCode.NONE for each in offsets):
            await self.coordinator.catch_up()
            offsets = self._offsets_here(request)
        return offsets

    def _offsets_here(self, request: TxnOffsetCommitRequest) -> list[OffsetToCommit]:
        topics = self.coordinator.state.topics.by_name
        return [
            OffsetToCommit(
                known.topic_id if (known := topics.get(topic.name)) is not None else _NO_TOPIC,
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata or "",
            )
            for topic in request.topics
            for each in topic.partitions
        ]

    def _code(self, offset: OffsetToCommit) -> ErrorCode:
        if not partition_exists(self.coordinator.state, offset):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if len(offset.metadata.encode()) > self.groups.settings.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE


def _response(
    request: TxnOffsetCommitRequest, codes: Iterator[ErrorCode]
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(each.partition_index, next(codes))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
