"""DescribeTransactions: version 0 (KIP-664).

Any gateway answers, from a replica that has read the metadata log to its end.  As in Kafka, a group
whose offsets a transaction commits is shown as a partition of `__consumer_offsets`, and an ended
transaction keeps its start time until the id is initialised again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC, offsets_partition
from tidegate_coordination.state.transactions.open import OpenTransaction
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_transactions as wire
from tidegate_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

from ...migration.forward.transactions import TransactionForwards
from ...network.call import Call
from ...network.turns import Turns


@dataclass(frozen=True, slots=True)
class DescribeTransactions:
    """Answers DescribeTransactions requests."""

    coordinator: Coordinator
    forwards: TransactionForwards
    api_key: ClassVar[int] = ApiKey.DESCRIBE_TRANSACTIONS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: DescribeTransactionsRequest
    ) -> DescribeTransactionsResponse:
        """Describe each id once, in the order of the request."""
        await self.coordinator.catch_up()
        turns = Turns()
        states: list[TransactionState] = []
        names = dict.fromkeys(request.transactional_ids)
        theirs = await self.forwards.described(
            call, [each for each in names if each and self.forwards.takes(each)]
        )
        for name in names:
            described = theirs[name] if name in theirs else self._describe(name)
            states.append(described)
            await turns.count(1 + sum(len(each.partitions) for each in described.topics))
        return DescribeTransactionsResponse(transaction_states=states)

    def _describe(self, name: str) -> TransactionState:
        if not name:
            return TransactionState(error_code=ErrorCode.INVALID_REQUEST)
        table = self.coordinator.state.transactions
        row = table.get(name)
        if row is None:
            return TransactionState(
                error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=name
            )
        transaction = table.open_of(name)
        return TransactionState(
            ErrorCode.NONE,
            name,
            row.state.shown,
            row.timeout_ms,
            row.started_ms,
            row.producer_id,
            row.epoch,
            list(self._topics(transaction)) if transaction is not None else [],
        )

    def _topics(self, transaction: OpenTransaction) -> Iterator[TopicData]:
        state = self.coordinator.state
        by_topic: dict[str, list[int]] = {}
        for number in transaction.partitions:
            partition = state.partitions[number]
            name = state.topics.get(partition.topic_id).name
            by_topic.setdefault(name, []).append(partition.index)
        offsets_topic = state.topics.by_name.get(OFFSETS_TOPIC)
        count = len(offsets_topic.partition_numbers) if offsets_topic is not None else 0
        if transaction.groups and count:
            of_groups = {offsets_partition(each, count) for each in transaction.groups}
            by_topic.setdefault(OFFSETS_TOPIC, []).extend(sorted(of_groups))
        for name, indexes in by_topic.items():
            yield TopicData(name, sorted(indexes))
