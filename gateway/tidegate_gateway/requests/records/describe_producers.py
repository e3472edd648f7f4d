"""DescribeProducers: version 0 (KIP-664).

Differs from Kafka: any gateway answers for any partition; last_timestamp is the log's time of the
producer's last write, not the time stamp of its records.  A partition that is named twice gets one
answer.  The coordinator epoch is 0 for a producer with a transactional id, otherwise -1.  If a
partition has more producers than MAX_OF_PARTITION, the answer has those with an open transaction,
and then the newest of the others.  After MAX_PRODUCERS in an answer, further partitions get
INVALID_REQUEST.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.topic_names import illegal_topic_name
from tidegate_coordination.state.records.partitions import Partition
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import describe_producers as wire
from tidegate_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from ...network.call import Call
from ...network.turns import Turns

MAX_OF_PARTITION: Final = 10_000
MAX_PRODUCERS: Final = 100_000
"""The most producers in one answer: 3.6 MB on the wire, and some 25 MiB while it is made."""
_TOO_MANY: Final = f"the answer has more than {MAX_PRODUCERS} producers: ask for fewer partitions"
_NO_SEQUENCE: Final = -1
_NO_COORDINATOR: Final = -1
_NOT_OPEN: Final = -1


@dataclass(frozen=True, slots=True)
class DescribeProducersHandler:
    """Answers DescribeProducers requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.DESCRIBE_PRODUCERS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: DescribeProducersRequest
    ) -> DescribeProducersResponse:
        """Answer for each partition."""
        await self.coordinator.catch_up()
        turns, left = Turns(), MAX_PRODUCERS
        answer = DescribeProducersResponse()
        for name, indexes in _asked(request).items():
            rows: list[PartitionResponse] = []
            answer.topics.append(TopicResponse(name, rows))
            for index in indexes:
                row = await self._partition(name, index, left, turns)
                rows.append(row)
                left -= len(row.active_producers)
                await turns.count()
        return answer

    async def _partition(self, name: str, index: int, left: int, turns: Turns) -> PartitionResponse:
        if illegal_topic_name(name) is not None:
            return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        state = self.coordinator.state
        topic = state.topics.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = state.partitions[topic.partition_numbers[index]]
        opened = partition.open.as_dict() if partition.open else {}
        shown = _shown(partition, opened)
        if len(shown) > left:
            return PartitionResponse(index, ErrorCode.INVALID_REQUEST, _TOO_MANY)
        rows: list[ProducerState] = []
        for producer_id in shown:
            row = self._row(partition, producer_id, opened)
            if row is not None:
                rows.append(row)
            await turns.count()
        return PartitionResponse(index, ErrorCode.NONE, None, rows)

    def _row(
        self, partition: Partition, producer_id: int, opened: dict[int, int]
    ) -> ProducerState | None:
        """Return the row of a producer; None if the partition has forgotten it meanwhile."""
        found = partition.producers.get(producer_id)
        if found is None:
            return None
        return ProducerState(
            producer_id,
            found.epoch,
            found.batches[-1].last_sequence if found.batches else _NO_SEQUENCE,
            found.last_write_ms,
            _NO_COORDINATOR
            if self.coordinator.state.transactions.name_of(producer_id) is None
            else 0,
            opened.get(producer_id, _NOT_OPEN),
        )


def _shown(partition: Partition, opened: dict[int, int]) -> list[int]:
    """Return the producers to show, without a walk over all of perhaps a million."""
    producers = partition.producers
    if len(producers) <= MAX_OF_PARTITION:
        return list(producers)
    newest = islice(reversed(producers), MAX_OF_PARTITION)
    return list(islice(dict.fromkeys(chain(opened, newest)), MAX_OF_PARTITION))


def _asked(request: DescribeProducersRequest) -> dict[str, dict[int, None]]:
    """Return each partition once, so that few bytes cannot list 100,000 producers many times."""
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return asked


def _refused(index: int, code: ErrorCode) -> PartitionResponse:
    return PartitionResponse(index, code, error_text(code))
