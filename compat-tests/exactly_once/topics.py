"""Writes the input of a run, and reads its output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

CALL_SECONDS = 60.0
IDLE_SECONDS = 60.0
_QUIET = {"log_level": 0}


def create_topics(bootstrap: str, partitions: Mapping[str, int], replicas: int = 3) -> None:
    """Create topics by name."""
    made = [NewTopic(name, count, replicas) for name, count in partitions.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    for created in admin.create_topics(made).values():
        created.result(CALL_SECONDS)


def write(bootstrap: str, topic: str, records: Iterable[tuple[int, bytes | None, bytes]]) -> None:
    """Write records (partition, key, value), and wait until all are acknowledged.

    Raises:
      RuntimeError: a record was not acknowledged.
    """
    failed: list[str] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, **_QUIET}
    )

    def told(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    for partition, key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=told)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(CALL_SECONDS)
    if failed or left:
        raise RuntimeError(f"{len(failed) + left} records were not written: {failed[:1]}")


def ends(bootstrap: str, topic: str, partitions: int, *, is_committed: bool) -> dict[int, int]:
    """Return the last stable offset of each partition, or its high watermark."""
    level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    last = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # it has no types
    asked = {TopicPartition(topic, each): last for each in range(partitions)}
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=CALL_SECONDS)
    return {where.partition: each.result().offset for where, each in answers.items()}


def wait_until_settled(bootstrap: str, topic: str, partitions: int, seconds: float) -> bool:
    """Wait until no transaction is open in the topic; return False if one stays open."""
    deadline = time.monotonic() + seconds
    while True:
        stable = ends(bootstrap, topic, partitions, is_committed=True)
        if stable == ends(bootstrap, topic, partitions, is_committed=False):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """Return the offsets of a group; 0 where it has none, nothing if no gateway answers.

    It does not ask for stable offsets, since working copiers always have pending ones.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": group}
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted", **_QUIET})
    try:
        asked = [TopicPartition(topic, each) for each in range(partitions)]
        found = consumer.committed(asked, timeout=CALL_SECONDS)
        return {each.partition: max(each.offset, 0) for each in found if each.error is None}
    except KafkaException:
        return {}
    finally:
        consumer.close()


def read(
    bootstrap: str,
    topic: str,
    partitions: int,
    take: Callable[[int, bytes | None, bytes | None], None],
    *,
    isolation: str = "read_committed",
) -> int:
    """Pass each record (partition, key, value) of an idle topic to `take`; return their number.

    Raises:
      TimeoutError: an end was not reached.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": "sweep", "enable.auto.commit": False}
    more = {"isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({**settings, **more, **_QUIET})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
    open_partitions, count, idle_since = set(range(partitions)), 0, time.monotonic()
    try:
        while open_partitions:
            messages = consumer.consume(num_messages=5000, timeout=1.0)
            idle_since = time.monotonic() if messages else idle_since
            if time.monotonic() - idle_since > IDLE_SECONDS:
                raise TimeoutError(f"{topic} {sorted(open_partitions)} could not be read")
            for message in messages:
                partition = message.partition()
                assert partition is not None
                if message.error() is not None:
                    open_partitions.discard(partition)
                    continue
                take(partition, message.key(), message.value())
                count += 1
    finally:
        consumer.close()
    return count
