"""AddPartitionsToTxn: versions 0-5.

Clients of transaction.version 0 and 1 send versions up to 3.  Later ones are for brokers: several
transactions at once, and a check without a change (KIP-890), which no gateway needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.rules.transactions.growing import disowned
from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_coordination.state.topics import Topic
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
from ...transactions.steps import ProducerName, TransactionSteps
from .errors import UNAVAILABLE, refusal_code

SEVERAL_SINCE: Final = 4
KNOWS_FENCED_SINCE: Final = 2
KNOWS_ABORTABLE_SINCE: Final = 5


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxn:
    """See the module's head."""

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
        try:
            unknown = await self._unknown(wanted.topics)
            if unknown:
                return _with_unknown(wanted.topics, unknown)
            if not wanted.transactional_id:
                return _all(wanted.topics, ErrorCode.INVALID_REQUEST)
            if wanted.verify_only:
                return await self._verify(call, wanted)
            refusal = await self._grow(wanted)
        except CoordinatorUnavailable:
            return _all(wanted.topics, UNAVAILABLE)
        return _all(wanted.topics, _code(call, refusal))

    async def _grow(self, wanted: AddPartitionsToTxnTransaction) -> TransactionRefusal | None:
        partitions = tuple(
            (topic.topic_id, index)
            for each in wanted.topics
            if (topic := self._topic(each)) is not None
            for index in each.partitions
        )
        return await self.steps.grow(_producer(wanted), partitions)

    async def _unknown(self, topics: Sequence[AddPartitionsToTxnTopic]) -> set[tuple[str, int]]:
        unknown = self._unknown_here(topics)
        if unknown:
            await self.coordinator.catch_up()
            unknown = self._unknown_here(topics)
        return unknown

    def _unknown_here(self, topics: Sequence[AddPartitionsToTxnTopic]) -> set[tuple[str, int]]:
        unknown: set[tuple[str, int]] = set()
        for each in topics:
            topic = self._topic(each)
            count = len(topic.partition_numbers) if topic is not None else 0
            unknown |= {(each.name, index) for index in each.partitions if not 0 <= index < count}
        return unknown

    def _topic(self, wanted: AddPartitionsToTxnTopic) -> Topic | None:
        return self.coordinator.state.topics.by_name.get(wanted.name)

    async def _verify(
        self, call: Call, wanted: AddPartitionsToTxnTransaction
    ) -> list[AddPartitionsToTxnTopicResult]:
        """Return for each partition whether the open transaction has it."""
        await self.coordinator.catch_up()
        table = self.coordinator.state.transactions
        row = table.get(wanted.transactional_id)
        refusal = disowned(row, wanted.producer_id, wanted.producer_epoch)
        if refusal is not None:
            return _all(wanted.topics, _code(call, refusal))
        transaction = table.open_of(wanted.transactional_id)
        numbers = transaction.partitions.keys() if transaction is not None else ()
        absent = ErrorCode.TRANSACTION_ABORTABLE  # of brokers, which ask with version 4, too

        def code(each: AddPartitionsToTxnTopic, index: int) -> ErrorCode:
            topic = self._topic(each)
            is_in = topic is not None and topic.partition_numbers[index] in numbers
            return ErrorCode.NONE if is_in else absent

        return [
            _result(each, [code(each, index) for index in each.partitions])
            for each in wanted.topics
        ]


def _producer(wanted: AddPartitionsToTxnTransaction) -> ProducerName:
    return ProducerName(wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)


def _code(call: Call, refusal: TransactionRefusal | None) -> ErrorCode:
    return refusal_code(
        refusal,
        knows_fenced=call.version >= KNOWS_FENCED_SINCE,
        knows_abortable=call.version >= KNOWS_ABORTABLE_SINCE,
    )


def _all(
    topics: Sequence[AddPartitionsToTxnTopic], code: ErrorCode
) -> list[AddPartitionsToTxnTopicResult]:
    return [_result(each, [code] * len(each.partitions)) for each in topics]


def _with_unknown(
    topics: Sequence[AddPartitionsToTxnTopic], unknown: set[tuple[str, int]]
) -> list[AddPartitionsToTxnTopicResult]:
    """If one partition is unknown, none is added."""

    def code(name: str, index: int) -> ErrorCode:
        is_unknown = (name, index) in unknown
        untried = ErrorCode.OPERATION_NOT_ATTEMPTED
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else untried

    return [_result(each, [code(each.name, index) for index in each.partitions]) for each in topics]


def _result(
    topic: AddPartitionsToTxnTopic, codes: Sequence[ErrorCode]
) -> AddPartitionsToTxnTopicResult:
    rows = [
        AddPartitionsToTxnPartitionResult(index, code)
        for index, code in zip(topic.partitions, codes, strict=True)
    ]
    return AddPartitionsToTxnTopicResult(topic.name, rows)
