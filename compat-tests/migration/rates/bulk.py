"""A large topic of numbered records, and a check of its copy in another cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TOPIC: Final = "bulk"
RESULT_SECONDS: Final = 60.0
READ_SECONDS: Final = 300.0
NUMBER_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Bulk:
    """A topic whose partitions have equally many records.

    Record n of a partition has offset n, and n in its value.  records: how many are written to each
    partition.  start: the records below it are deleted again.
    """

    partitions: int
    records: int
    value_bytes: int
    start: int = 0

    @property
    def count(self) -> int:
        """The records of all partitions."""
        return self.partitions * (self.records - self.start)

    @property
    def mib(self) -> float:
        """The size of all values."""
        return self.count * self.value_bytes / (1 << 20)

    @classmethod
    def of(cls, mib: int, partitions: int, value_bytes: int) -> Bulk:
        """Return a bulk of `mib` MiB."""
        return cls(partitions, (mib << 20) // value_bytes // partitions, value_bytes)

    def write(self, bootstrap: str, batch_bytes: int) -> None:
        """Create the topic and write all records, in batches of batch_bytes."""
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        wanted = NewTopic(TOPIC, self.partitions, 1)
        admin.create_topics([wanted])[TOPIC].result(RESULT_SECONDS)
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "enable.idempotence": True,
                "batch.size": batch_bytes,
                "linger.ms": 100,
                "queue.buffering.max.kbytes": 64 << 10,
            }
        )
        # Values are parts of a large random block, which no codec can compress.
        block = Random(1).randbytes(1 << 20)
        rest = self.value_bytes - NUMBER_BYTES
        for number in range(self.records):
            head = number.to_bytes(NUMBER_BYTES)
            at = number * 37 % (len(block) - rest)
            value = head + block[at : at + rest]
            for partition in range(self.partitions):
                _produce(producer, value, partition)
        if producer.flush(RESULT_SECONDS):
            raise RuntimeError("the source did not take all records")
        if self.start:
            places = [TopicPartition(TOPIC, each, self.start) for each in range(self.partitions)]
            for each in admin.delete_records(places).values():
                each.result(RESULT_SECONDS)


def _produce(producer: Producer, value: bytes, partition: int) -> None:
    while True:
        try:
            return producer.produce(TOPIC, value, partition=partition)
        except BufferError:
            producer.poll(0.05)


@dataclass(slots=True)
class Found:
    """The records of a bulk at a cluster.  moved: those whose offset is not their number."""

    records: int = 0
    lost: int = 0
    doubled: int = 0
    moved: int = 0


class Looker:
    """Reads the topic at a cluster."""

    def __init__(self, bootstrap: str, bulk: Bulk) -> None:
        self._bulk = bulk
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "group.id": "looker",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": 8 << 20,
            }
        )

    def close(self) -> None:
        """End it."""
        self._consumer.close()

    def count(self) -> int:
        """Return the number of records, by the first and last offsets of the partitions."""
        return sum(end - start for start, end in self._bounds())

    def _bounds(self) -> list[tuple[int, int]]:
        if TOPIC not in self._consumer.list_topics(timeout=30).topics:
            return []
        return [self._bounds_of(each) for each in range(self._bulk.partitions)]

    def _bounds_of(self, partition: int) -> tuple[int, int]:
        place = TopicPartition(TOPIC, partition)
        try:
            return self._consumer.get_watermark_offsets(place, timeout=30) or (0, 0)
        except KafkaException:  # the topic is being created
            return 0, 0

    def found(self) -> Found:
        """Read all records, and compare their numbers with their offsets."""
        bounds, result = self._bounds(), Found()
        seen = [bytearray(self._bulk.records) for _ in bounds]
        starts = [TopicPartition(TOPIC, at, start) for at, (start, _) in enumerate(bounds)]
        self._consumer.assign(starts)
        left = {at for at, (start, end) in enumerate(bounds) if end > start}
        deadline = time.monotonic() + READ_SECONDS
        while left and time.monotonic() < deadline:
            for message in self._consumer.consume(10_000, 1.0):
                if message.error() is not None:
                    continue
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                number = int.from_bytes((message.value() or b"")[:NUMBER_BYTES])
                result.records += 1
                result.doubled += seen[partition][number]
                result.moved += number != offset
                seen[partition][number] = 1
                if offset >= bounds[partition][1] - 1:
                    left.discard(partition)
        result.lost = sum(each.count(0, self._bulk.start) for each in seen)
        return result
