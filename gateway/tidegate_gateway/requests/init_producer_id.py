"""InitProducerId: versions 0-5, without transactions.

Ids come in blocks from the coordinator and are unique for ever; what is left of a block when the
gateway stops is never used.  A transactional id is refused with a code that all clients take as
fatal, should one come so far: it asks for its coordinator first (find_coordinator.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import trio

from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.rules.producer_ids import ReserveProducerIds
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import init_producer_id as wire
from tidegate_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from ..call import Call
from ..unserved import TRANSACTIONS

BLOCK = 1000


class ProducerIds:
    """This gateway's block of producer ids."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._next = 0
        self._end = 0
        self._reserving = trio.Lock()

    async def take(self) -> int:
        """Return a producer id nobody has had.

        Raises:
          CoordinatorUnavailable: no block could be reserved.
        """
        while self._next == self._end:
            async with self._reserving:
                if self._next == self._end:
                    self._next = await self._coordinator.propose(ReserveProducerIds(BLOCK))
                    self._end = self._next + BLOCK
        self._next += 1
        return self._next - 1


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """See the module's head."""

    producer_ids: ProducerIds
    api_key: ClassVar[int] = 22
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Give out an id with epoch 0."""
        if request.transactional_id is not None:
            call.note_refused(TRANSACTIONS)
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if not request.transactional_id:
                code = ErrorCode.INVALID_REQUEST
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        return InitProducerIdResponse(producer_id=await self.producer_ids.take(), producer_epoch=0)
