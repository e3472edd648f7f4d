"""InitProducerId: versions 0-5.

Without a transactional id, a client gets a new producer id.  With one, the id's epoch rises, which
fences the id's other clients, and its open transaction is aborted in the same step.  Kafka needs
several steps: until the transaction is aborted it answers CONCURRENT_TRANSACTIONS, and it raises
the epoch twice.

A cluster below the metadata.version of transactions refuses transactional ids with a code that all
clients treat as fatal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import init_producer_id as wire
from tidegate_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from ...network.call import Call
from ...transactions.steps import TransactionSteps
from ...unserved import TRANSACTIONS
from .errors import UNAVAILABLE, refusal_code

KNOWS_FENCED_SINCE: Final = 4
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """See the module's head.  max_timeout_ms: returns how long a transaction may stay open."""

    steps: TransactionSteps
    max_timeout_ms: Callable[[], int]
    api_key: ClassVar[int] = ApiKey.INIT_PRODUCER_ID
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Give out a new producer id, or the next epoch of the transactional id."""
        code = self._error(request)
        if code is not ErrorCode.NONE:
            return _refused(code)
        if request.transactional_id is None:
            producer_id = await self.steps.producer_ids.take()
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        try:
            answer = await self.steps.initialise(
                request.transactional_id,
                request.transaction_timeout_ms,
                request.producer_id,
                request.producer_epoch,
            )
        except CoordinatorUnavailable:
            return _refused(UNAVAILABLE)
        if answer.refusal is TransactionRefusal.NOT_YET:
            call.note_refused(TRANSACTIONS)
        if answer.refusal is not None:
            knows_fenced = call.version >= KNOWS_FENCED_SINCE
            return _refused(refusal_code(answer.refusal, knows_fenced=knows_fenced))
        return InitProducerIdResponse(producer_id=answer.producer_id, producer_epoch=answer.epoch)

    def _error(self, request: InitProducerIdRequest) -> ErrorCode:
        if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
            return ErrorCode.INVALID_REQUEST
        if request.transactional_id is None:
            return ErrorCode.NONE
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < request.transaction_timeout_ms <= self.max_timeout_ms():
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
