"""WriteTxnMarkers: versions 1-2.

In Kafka, brokers send it; `kafka-transactions.sh abort` sends it to end a hanging transaction.
Differs from Kafka: no transaction hangs here.  So an abort ends the producer's whole open
transaction, with all its partitions, and fences the producer.  A commit is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable
from tidegate_coordination.rules.transactions.ending import AbortTransaction
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import write_txn_markers as wire
from tidegate_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from ...network.call import Call
from ...network.turns import Turns
from ...topics.client_acts import Act, note_unknown, tell_act
from ...transactions.steps import TransactionSteps


@dataclass(frozen=True, slots=True)
class WriteTxnMarkers:
    """Answers WriteTxnMarkers requests."""

    steps: TransactionSteps
    api_key: ClassVar[int] = ApiKey.WRITE_TXN_MARKERS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Abort the transactions."""
        turns = Turns()
        results: list[WritableTxnMarkerResult] = []
        for marker in request.markers:
            codes = await self._codes(call, marker)
            results.append(_result(marker, codes))
            await turns.count(1 + len(codes))
        return WriteTxnMarkersResponse(markers=results)

    async def _codes(self, call: Call, marker: WritableTxnMarker) -> Sequence[ErrorCode]:
        indexes = [(topic.name, i) for topic in marker.topics for i in topic.partition_indexes]
        if marker.transaction_result:
            return [ErrorCode.INVALID_REQUEST] * len(indexes)
        try:
            await self.steps.coordinator.catch_up()
            if not any(self._is_in(marker, name, index) for name, index in indexes):
                return [self._unopened(name, index) for name, index in indexes]
            code = await self._abort(call, marker)
        except CoordinatorUnavailable:
            note_unknown(self.api_key, call)
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        return [code] * len(indexes)

    def _is_in(self, marker: WritableTxnMarker, topic_name: str, index: int) -> bool:
        """Return whether the producer has a transaction open in a partition."""
        state = self.steps.coordinator.state
        number = self._number(topic_name, index)
        name = state.transactions.name_of(marker.producer_id)
        transaction = state.transactions.open_of(name) if name is not None else None
        return transaction is not None and number is not None and transaction.is_in(number)

    def _unopened(self, topic_name: str, index: int) -> ErrorCode:
        if self._number(topic_name, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = self.steps.coordinator.state.topics.by_name.get(topic_name)
        is_copy = topic is not None and bool(topic.link)
        return ErrorCode.POLICY_VIOLATION if is_copy else ErrorCode.NONE

    def _number(self, topic_name: str, index: int) -> int | None:
        topic = self.steps.coordinator.state.topics.by_name.get(topic_name)
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return None
        return topic.partition_numbers[index]

    async def _abort(self, call: Call, marker: WritableTxnMarker) -> ErrorCode:
        name = self.steps.coordinator.state.transactions.name_of(marker.producer_id)
        answer = await self.steps.with_spare_id(
            partial(AbortTransaction, marker.producer_id, marker.producer_epoch)
        )
        if answer.refusal is TransactionRefusal.FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if answer.refusal is None and name is not None:
            tell_act(call, Act("transactions aborted", [name], {}))
        # The transaction has ended meanwhile, as the tool wanted.
        return ErrorCode.NONE


def _result(marker: WritableTxnMarker, codes: Sequence[ErrorCode]) -> WritableTxnMarkerResult:
    left = iter(codes)
    return WritableTxnMarkerResult(
        marker.producer_id,
        [
            WritableTxnMarkerTopicResult(
                topic.name,
                [
                    WritableTxnMarkerPartitionResult(index, next(left))
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )
