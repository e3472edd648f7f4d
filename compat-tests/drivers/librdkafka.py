"""confluent-kafka, which wraps librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from drivers.records import Got, Sent

READ_SECONDS = 60.0
REBALANCE_CODES = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._NO_OFFSET,
    KafkaError._ASSIGNMENT_LOST,
)


def await_error(producer: Producer, errors: Sequence[str], words: str) -> None:
    """Serve a producer until one of its errors has these words.  errors: grows with its errors.

    Raises:
      TimeoutError: no error has these words after READ_SECONDS.
    """
    deadline = time.monotonic() + READ_SECONDS
    while not any(words in each for each in errors):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no error has {words!r}: {errors}")
        producer.poll(0.1)


class Librdkafka:
    """See records.Client."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _settings(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self._bootstrap, **more}

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            self._settings(
                **{
                    "group.id": group,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "heartbeat.interval.ms": 300,
                    "session.timeout.ms": 10_000,
                }
            )
        )

    def create_topic(self, topic: str, partitions: int) -> None:
        """See Client."""
        admin = AdminClient(self._settings())
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def produce(self, topic: str, records: Sequence[Sent], codec: str) -> list[int]:
        """See Client."""
        producer = Producer(
            self._settings(**{"compression.type": codec, "enable.idempotence": True})
        )
        told: list[tuple[int, int]] = []

        def note(index: int, error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            told.append((index, offset))

        for index, record in enumerate(records):
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                on_delivery=partial(note, index),
            )
            producer.poll(0)
        assert producer.flush(READ_SECONDS) == 0
        return [offset for _, offset in sorted(told)]

    def read(self, topic: str, starts: Mapping[int, int], count: int) -> list[Got]:
        """See Client."""
        consumer = self._consumer("reader")
        try:
            consumer.assign([TopicPartition(topic, *each) for each in starts.items()])
            got: list[Got] = []
            deadline = time.monotonic() + READ_SECONDS
            while len(got) < count and time.monotonic() < deadline:
                got += map(_got, consumer.consume(num_messages=1000, timeout=0.2))
            return got
        finally:
            consumer.close()

    def offsets_for_time(
        self, topic: str, partitions: Iterable[int], timestamp_ms: int
    ) -> dict[int, int | None]:
        """See Client."""
        consumer = self._consumer("reader")
        try:
            asked = [TopicPartition(topic, each, timestamp_ms) for each in partitions]
            answers = consumer.offsets_for_times(asked, timeout=30)
            return {each.partition: None if each.offset < 0 else each.offset for each in answers}
        finally:
            consumer.close()

    def committed(self, topic: str, group: str, partitions: Iterable[int]) -> dict[int, int]:
        """See Client."""
        consumer = self._consumer(group)
        try:
            asked = [TopicPartition(topic, each) for each in partitions]
            answers = consumer.committed(asked, timeout=30)
            return {each.partition: max(each.offset, 0) for each in answers}
        finally:
            consumer.close()

    def member(self, topic: str, group: str) -> LibrdkafkaMember:
        """See Client."""
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        return LibrdkafkaMember(consumer)


class LibrdkafkaMember:
    """See records.Member."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def poll(self) -> list[Got]:
        """See Member."""
        return [_got(each) for each in self._consumer.consume(num_messages=500, timeout=0.2)]

    def assignment(self) -> set[int]:
        """See Member."""
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> bool:
        """See Member."""
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in REBALANCE_CODES:
                raise
            return False
        return True

    def close(self) -> None:
        """See Member."""
        self._consumer.close()


def _got(message: Message) -> Got:
    error, partition, offset = message.error(), message.partition(), message.offset()
    assert error is None, error
    assert partition is not None
    assert offset is not None
    return Got(partition, offset, message.key(), message.value(), message.timestamp()[1])
