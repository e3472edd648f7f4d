"""The most expensive Produce requests."""

from __future__ import annotations

from dear_requests.shapes import (
    BATCHES,
    TIME_MS,
    WIDE,
    of,
)
from tidegate_protocol.compression import Codec
from tidegate_protocol.messages import (
    produce,
)
from tidegate_protocol.records import Record, build_batch


def batches(count: int, partitions: int) -> bytes:
    batch = build_batch([Record(0, 1_700_000_000_000, b"", b"", ())])
    data = [produce.PartitionProduceData(each % partitions, batch) for each in range(count)]
    topic = produce.TopicProduceData(name=WIDE, partition_data=data)
    return of(produce, 9, produce.ProduceRequest(None, 1, 30_000, [topic]))


def of_many_producers() -> bytes:
    """Return batches that each have another producer id; no gateway gave these ids."""
    record = Record(0, TIME_MS, b"", b"", ())
    batches = (
        build_batch([record], producer_id=(1 << 50) + each, producer_epoch=0, base_sequence=0)
        for each in range(BATCHES)
    )
    data = [produce.PartitionProduceData(index, batch) for index, batch in enumerate(batches)]
    topic = produce.TopicProduceData(name=WIDE, partition_data=data)
    return of(produce, 9, produce.ProduceRequest(None, 1, 30_000, [topic]))


def bomb(record: Record, codec: Codec, partitions: int) -> bytes:
    batch = build_batch([record], codec=codec)
    data = [produce.PartitionProduceData(each, batch) for each in range(partitions)]
    topic = produce.TopicProduceData(name=WIDE, partition_data=data)
    return of(produce, 9, produce.ProduceRequest(None, 1, 30_000, [topic]))


def headers() -> Record:
    return Record(0, TIME_MS, b"", b"", (("", None),) * 1_000_000)


def zeros(size: int) -> Record:
    return Record(0, TIME_MS, b"", bytes(size), ())
