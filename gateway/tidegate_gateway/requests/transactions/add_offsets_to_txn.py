"""AddOffsetsToTxn: versions 0-4.

Adds a group to the transaction; the client commits the group's offsets afterwards.

Clients of transaction.version 2 do not send it: their TxnOffsetCommit adds the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import add_offsets_to_txn as wire
from tidegate_protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

from ...migration.forward.groups import GroupForwards
from ...network.call import Call
from ...transactions.steps import ProducerName, TransactionSteps
from .errors import UNAVAILABLE, refusal_code

KNOWS_FENCED_SINCE: Final = 2
KNOWS_ABORTABLE_SINCE: Final = 4


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxn:
    """Answers AddOffsetsToTxn requests."""

    steps: TransactionSteps
    forwards: GroupForwards
    api_key: ClassVar[int] = ApiKey.ADD_OFFSETS_TO_TXN
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        """Add the group."""
        if not request.transactional_id:
            return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        if self.forwards.takes(request.group_id):
            # The group's offsets are at the source of a link: a transaction cannot span two
            # clusters.
            return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        producer = ProducerName(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        try:
            refusal = await self.steps.grow(producer, groups=(request.group_id,))
        except CoordinatorUnavailable:
            return AddOffsetsToTxnResponse(error_code=UNAVAILABLE)
        code = refusal_code(
            refusal,
            knows_fenced=call.version >= KNOWS_FENCED_SINCE,
            knows_abortable=call.version >= KNOWS_ABORTABLE_SINCE,
        )
        return AddOffsetsToTxnResponse(error_code=code)
