"""DescribeProducers: version 0 (KIP-664).

Differs from Kafka: any gateway answers for any partition; last_timestamp is the log's time of the
producer's last write, not the time stamp of its records; a partition that is asked for twice is
answered once; the epoch of a coordinator is 0, of one transaction at least, else -1.
"""

from __future__ import annotations

from dataclasses import dataclass
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

_NO_SEQUENCE: Final = -1
_NO_COORDINATOR: Final = -1
_NOT_OPEN: Final = -1


@dataclass(frozen=True, slots=True)
class DescribeProducersHandler:
    """See the module's head."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.DESCRIBE_PRODUCERS
    messages: ClassVar[ModuleType] = wire

    async def handle(
        self, call: Call, request: DescribeProducersRequest
    ) -> DescribeProducersResponse:
        """Answer partition by partition."""
        await self.coordinator.catch_up()
        turns = Turns()
        answer = DescribeProducersResponse()
        for name, indexes in _asked(request).items():
            rows: list[PartitionResponse] = []
            for index in indexes:
                row = self._partition(name, index)
                rows.append(row)
                await turns.count(1 + len(row.active_producers))
            answer.topics.append(TopicResponse(name, rows))
        return answer

    def _partition(self, name: str, index: int) -> PartitionResponse:
        if illegal_topic_name(name) is not None:
            return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        state = self.coordinator.state
        topic = state.topics.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        producers = self._producers(state.partitions[topic.partition_numbers[index]])
        return PartitionResponse(index, ErrorCode.NONE, None, producers)

    def _producers(self, partition: Partition) -> list[ProducerState]:
        names = self.coordinator.state.transactions
        opened = partition.open.as_dict() if partition.open else {}
        return [
            ProducerState(
                producer_id,
                each.epoch,
                each.batches[-1].last_sequence if each.batches else _NO_SEQUENCE,
                each.last_write_ms,
                _NO_COORDINATOR if names.name_of(producer_id) is None else 0,
                opened.get(producer_id, _NOT_OPEN),
            )
            for producer_id, each in partition.producers.items()
        ]


def _asked(request: DescribeProducersRequest) -> dict[str, dict[int, None]]:
    """Return each partition once: a request of few bytes must not list 100,000 producers many
    times.
    """
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return asked


def _refused(index: int, code: ErrorCode) -> PartitionResponse:
    return PartitionResponse(index, code, error_text(code))
