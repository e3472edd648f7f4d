"""EndTxn: versions 0-5.

One entry of the metadata log ends the transaction: its markers, its offsets and the epoch that the
client continues with (from version 5 on, KIP-890).  The gateway answers after it has applied this
entry, so a later read_committed fetch from this gateway sees the whole transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable
from tidegate_coordination.rules.transactions.ending import NOT_OPEN
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import end_txn as wire
from tidegate_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

from ...network.call import Call
from ...transactions.steps import ProducerName, TransactionSteps
from .errors import UNAVAILABLE, refusal_code

BUMPS_SINCE: Final = 5
KNOWS_FENCED_SINCE: Final = 2


@dataclass(frozen=True, slots=True)
class EndTxn:
    """Answers EndTxn requests."""

    steps: TransactionSteps
    api_key: ClassVar[int] = ApiKey.END_TXN
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: EndTxnRequest) -> EndTxnResponse:
        """Commit or abort."""
        if not request.transactional_id:
            return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        bumps = call.version >= BUMPS_SINCE
        producer = ProducerName(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        try:
            began = NOT_OPEN if bumps else await self.steps.began(call, request.transactional_id)
            answer = await self.steps.end(
                producer, committed=request.committed, bumps=bumps, began=began
            )
        except CoordinatorUnavailable:
            return EndTxnResponse(error_code=UNAVAILABLE)
        if answer.refusal is not None:
            knows_fenced = call.version >= KNOWS_FENCED_SINCE
            code = refusal_code(answer.refusal, knows_fenced=knows_fenced)
            return EndTxnResponse(error_code=code)
        if not bumps:
            return EndTxnResponse()
        return EndTxnResponse(producer_id=answer.producer_id, producer_epoch=answer.epoch)
