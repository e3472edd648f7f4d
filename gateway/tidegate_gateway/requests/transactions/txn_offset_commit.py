"""TxnOffsetCommit: versions 0-5.

The offsets are staged: they take effect when the transaction commits.  The gateway that holds the
group's claim checks the member, since only that gateway knows of a rebalance in progress.  The
log's rules check the producer.  Differs from Kafka: all offsets of a request are staged, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from types import ModuleType
from typing import ClassVar, Final, NamedTuple

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.groups.values import MemberIdentity, Refusal
from tidegate_coordination.rules.consumer_groups.offsets import OffsetToCommit, partition_exists
from tidegate_coordination.rules.transactions.growing import disowned
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
from ...migration.forward.groups import GroupForwards
from ...network.call import Call
from ...network.turns import Turns
from ...transactions.steps import ProducerName, TransactionSteps
from ..groups.group_errors import refusal_code as group_refusal_code
from .errors import UNAVAILABLE, refusal_code

MAY_ADD_SINCE: Final = 5
KNOWS_ABORTABLE_SINCE: Final = 4
_NO_TOPIC: Final = b""
_OF_MEMBERS: Final = frozenset(
    {
        Refusal.UNKNOWN_MEMBER,
        Refusal.FENCED_INSTANCE,
        Refusal.ILLEGAL_GENERATION,
        Refusal.REBALANCE_IN_PROGRESS,
    }
)
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class _Row(NamedTuple):
    """One partition of the request; code: its error before any proposal."""

    offset: OffsetToCommit
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class TxnOffsetCommit:
    """Answers TxnOffsetCommit requests."""

    coordinator: Coordinator
    groups: GroupManager
    steps: TransactionSteps
    forwards: GroupForwards
    api_key: ClassVar[int] = ApiKey.TXN_OFFSET_COMMIT
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        """Stage the partitions without an error."""
        return await _response(request, await self._codes(call, request))

    async def _codes(self, call: Call, request: TxnOffsetCommitRequest) -> Iterator[ErrorCode]:
        """Return a code for each partition."""
        if not request.transactional_id:
            return repeat(ErrorCode.INVALID_REQUEST)
        if self.forwards.takes(request.group_id):
            # The group's offsets are at the source of a link: a transaction cannot span two
            # clusters.
            return repeat(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        try:
            rows = await self._rows(request)
        except CoordinatorUnavailable:
            return repeat(UNAVAILABLE)
        codes = [row.code for row in rows]
        if all(code is _UNKNOWN for code in codes):
            return iter(codes)
        good = [row.offset for row in rows if row.code is ErrorCode.NONE]
        answer = await self._stage(call, request, good)
        if isinstance(answer, ErrorCode):
            return iter([code if code is _UNKNOWN else answer for code in codes])
        taken = iter(answer)
        return iter(
            [_UNKNOWN if code is ErrorCode.NONE and not next(taken) else code for code in codes]
        )

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
            if isinstance(answer, Refusal) and answer in _OF_MEMBERS:
                answer = await self._misfit(call, request, producer) or answer
        except ProposalFailed:
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        except CoordinatorUnavailable:
            return UNAVAILABLE
        if isinstance(answer, Refusal):
            return group_refusal_code(answer)
        if isinstance(answer, TransactionRefusal):
            # No version of this request has PRODUCER_FENCED.
            knows_abortable = call.version >= KNOWS_ABORTABLE_SINCE
            return refusal_code(answer, knows_fenced=False, knows_abortable=knows_abortable)
        return answer

    async def _misfit(
        self, call: Call, request: TxnOffsetCommitRequest, producer: ProducerName
    ) -> TransactionRefusal | None:
        """Return the transaction's own error for a group whose member is refused; None without one.

        Kafka checks the transaction before the member, and with version 5 then adds the group.
        """
        if call.version >= MAY_ADD_SINCE:
            return await self.steps.grow(producer, groups=(request.group_id,))
        await self.coordinator.catch_up()
        table = self.coordinator.state.transactions
        row = table.get(producer.transactional_id)
        transaction = table.open_of(producer.transactional_id)
        refusal = disowned(row, producer.producer_id, producer.epoch)
        is_in = transaction is not None and request.group_id in transaction.groups
        return refusal or (None if is_in else TransactionRefusal.NOT_ADDED)

    async def _rows(self, request: TxnOffsetCommitRequest) -> list[_Row]:
        rows = await self._rows_here(request)
        if any(row.code is not ErrorCode.NONE for row in rows):
            await self.coordinator.catch_up()
            rows = await self._rows_here(request)
        return rows

    async def _rows_here(self, request: TxnOffsetCommitRequest) -> list[_Row]:
        turns = Turns()
        rows: list[_Row] = []
        for topic in request.topics:
            known = self.coordinator.state.topics.by_name.get(topic.name)
            topic_id = known.topic_id if known is not None else _NO_TOPIC
            for each in topic.partitions:
                offset = OffsetToCommit(
                    topic_id,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                )
                rows.append(_Row(offset, self._code(offset)))
                await turns.count()
        return rows

    def _code(self, offset: OffsetToCommit) -> ErrorCode:
        if not partition_exists(self.coordinator.state, offset):
            return _UNKNOWN
        if len(offset.metadata.encode()) > self.groups.settings.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE


async def _response(
    request: TxnOffsetCommitRequest, codes: Iterator[ErrorCode]
) -> TxnOffsetCommitResponse:
    turns = Turns()
    topics: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(topic.name)
        topics.append(answer)
        for each in topic.partitions:
            row = TxnOffsetCommitResponsePartition(each.partition_index, next(codes))
            answer.partitions.append(row)
            await turns.count()
    return TxnOffsetCommitResponse(topics=topics)
