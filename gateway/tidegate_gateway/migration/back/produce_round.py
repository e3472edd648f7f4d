"""One Produce request with batches that go back to a source, and its answer by batch.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate_protocol.batches import BatchHeader
from tidegate_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TIMEOUT_MS: Final = 5_000
MIN_VERSION: Final = 3
_ALL_REPLICAS: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """A batch to send.  leader: the broker to send it to.  header: the batch's header here."""

    leader: int
    topic: str
    topic_id: bytes
    index: int
    records: memoryview
    header: BatchHeader


def produce_request(batches: Sequence[Outgoing]) -> ProduceRequest:
    """Return the request for these batches, at most one of each partition.

    The request names each topic once: brokers drop the second entry of a topic.
    """
    by_topic: dict[str, TopicProduceData] = {}
    for each in batches:
        part = by_topic.get(each.topic)
        if part is None:
            part = by_topic[each.topic] = TopicProduceData(each.topic, each.topic_id, [])
        part.partition_data.append(PartitionProduceData(each.index, each.records))
    return ProduceRequest(None, _ALL_REPLICAS, TIMEOUT_MS, list(by_topic.values()))


def answers(
    batches: Sequence[Outgoing], response: ProduceResponse
) -> Iterator[PartitionProduceResponse | None]:
    """Yield the answer to each batch, in the order of the batches; None if the broker gave none."""
    by_name: dict[tuple[str, int], PartitionProduceResponse] = {}
    by_id: dict[tuple[bytes, int], PartitionProduceResponse] = {}
    for topic in response.responses:
        for each in topic.partition_responses:
            if topic.name:
                by_name[topic.name, each.index] = each
            else:
                by_id[topic.topic_id, each.index] = each
    for batch in batches:
        found = by_name.get((batch.topic, batch.index))
        yield found or by_id.get((batch.topic_id, batch.index))
