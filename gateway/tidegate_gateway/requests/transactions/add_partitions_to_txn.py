"""AddPartitionsToTxn: versions 0-5.

Clients of transaction.version 0 and 1 send versions up to 3.  Later versions are for brokers, which
add to several transactions at once, or check partitions without adding them (KIP-890).  No gateway
needs these versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from types import ModuleType
from typing import ClassVar, Final, TypeAlias

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.rules.transactions.growing import disowned
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import add_partitions_to_txn as wire
from tidegate_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

from ...network.call import Call
from ...network.turns import Turns
from ...topics.internal_topics import INTERNAL_TOPICS
from ...transactions.steps import ProducerName, TransactionSteps
from .errors import UNAVAILABLE, refusal_code

SEVERAL_SINCE: Final = 4
KNOWS_FENCED_SINCE: Final = 2
KNOWS_ABORTABLE_SINCE: Final = 5
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNTRIED: Final = ErrorCode.OPERATION_NOT_ATTEMPTED
"""If one partition is unknown, none is added."""
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_Place: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxn:
    """Answers AddPartitionsToTxn requests."""

    coordinator: Coordinator
    steps: TransactionSteps
    api_key: ClassVar[int] = ApiKey.ADD_PARTITIONS_TO_TXN
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        """Add the partitions of each transaction."""
        if call.version >= SEVERAL_SINCE:
            results = [
                AddPartitionsToTxnResult(each.transactional_id, await self._add(call, each))
                for each in request.transactions
            ]
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        one = AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await self._add(call, one))

    async def _add(
        self, call: Call, wanted: AddPartitionsToTxnTransaction
    ) -> list[AddPartitionsToTxnTopicResult]:
        codes = await self._codes(call, wanted)
        turns = Turns()
        results: list[AddPartitionsToTxnTopicResult] = []
        for topic in wanted.topics:
            result = AddPartitionsToTxnTopicResult(topic.name)
            results.append(result)
            for index in topic.partitions:
                row = AddPartitionsToTxnPartitionResult(index, next(codes))
                result.results_by_partition.append(row)
                await turns.count()
        return results

    async def _codes(
        self, call: Call, wanted: AddPartitionsToTxnTransaction
    ) -> Iterator[ErrorCode]:
        """Add the partitions of a transaction, or only check them; return a code for each."""
        try:
            places = await self._places(wanted.topics)
            codes = _refused(call, wanted.topics, places)
            if codes is not None:
                return iter(codes)
            known = [each for each in places if each is not None]
            if not wanted.transactional_id:
                return repeat(ErrorCode.INVALID_REQUEST)
            if wanted.verify_only:
                return await self._verify(call, wanted, known)
            refusal = await self.steps.grow(_producer(wanted), tuple(known))
        except CoordinatorUnavailable:
            return repeat(UNAVAILABLE)
        return repeat(_code(call, refusal))

    async def _places(self, topics: Sequence[AddPartitionsToTxnTopic]) -> list[_Place | None]:
        places = await self._places_here(topics)
        if None in places:
            await self.coordinator.catch_up()
            places = await self._places_here(topics)
        return places

    async def _places_here(self, topics: Sequence[AddPartitionsToTxnTopic]) -> list[_Place | None]:
        """Return each partition with its topic's id; None for a partition that does not exist."""
        turns = Turns()
        places: list[_Place | None] = []
        for each in topics:
            topic = self.coordinator.state.topics.by_name.get(each.name)
            for index in each.partitions:
                is_there = topic is not None and 0 <= index < len(topic.partition_numbers)
                places.append((topic.topic_id, index) if topic is not None and is_there else None)
                await turns.count()
        return places

    async def _verify(
        self, call: Call, wanted: AddPartitionsToTxnTransaction, places: Sequence[_Place]
    ) -> Iterator[ErrorCode]:
        """Return for each partition whether the open transaction has it."""
        await self.coordinator.catch_up()
        state = self.coordinator.state
        row = state.transactions.get(wanted.transactional_id)
        refusal = disowned(row, wanted.producer_id, wanted.producer_epoch)
        if refusal is not None:
            return repeat(_code(call, refusal))
        transaction = state.transactions.open_of(wanted.transactional_id)
        numbers = transaction.partitions.keys() if transaction is not None else ()

        def code(topic_id: bytes, index: int) -> ErrorCode:
            topic = state.topics.by_id.get(topic_id)
            is_in = topic is not None and topic.partition_numbers[index] in numbers
            # Brokers translate this code for older producers.
            return ErrorCode.NONE if is_in else ErrorCode.TRANSACTION_ABORTABLE

        return iter([code(*each) for each in places])


def _refused(
    call: Call, topics: Sequence[AddPartitionsToTxnTopic], places: Sequence[_Place | None]
) -> list[ErrorCode] | None:
    """Return a code for each partition; None if all may be added.

    Clients may not add partitions of internal topics.
    """
    codes = [_UNTRIED if each is not None else _UNKNOWN for each in places]
    if call.version < SEVERAL_SINCE:
        is_internal = [each.name in INTERNAL_TOPICS for each in topics for _ in each.partitions]
        codes = [_DENIED if own else code for own, code in zip(is_internal, codes, strict=True)]
    return codes if any(code is not _UNTRIED for code in codes) else None


def _producer(wanted: AddPartitionsToTxnTransaction) -> ProducerName:
    return ProducerName(wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)


def _code(call: Call, refusal: TransactionRefusal | None) -> ErrorCode:
    return refusal_code(
        refusal,
        knows_fenced=call.version >= KNOWS_FENCED_SINCE,
        knows_abortable=call.version >= KNOWS_ABORTABLE_SINCE,
    )
