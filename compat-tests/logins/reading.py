"""Reads topics from their start to their end, over a listener without logins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logins.ledger import Topics
from logins.load import number_of
from logins.plan import PARTITIONS

PATIENCE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05


def create_topics(bootstrap: str, topics: Sequence[str]) -> None:
    """Create the topics of a run; wait until each broker has them, and so all earlier changes."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in topics]).values():
        done.result(PATIENCE_SECONDS)
    for address in bootstrap.split(","):
        while not _knows(address, topics[-1]):
            time.sleep(LOOK_SECONDS)


def _knows(address: str, topic: str) -> bool:
    """Return whether this broker knows the topic.  A new client asks its bootstrap address."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    found = admin.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic]
    return found.error is None and len(found.partitions) == PARTITIONS


def read_all(bootstrap: str, topics: Sequence[str]) -> Topics:
    """Return all records.

    Raises:
      TimeoutError: none came for PATIENCE_SECONDS, and some are missing.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reading", "enable.auto.commit": False}
    )
    places = [(topic, each) for topic in topics for each in range(PARTITIONS)]
    found: dict[str, dict[int, list[tuple[int, int]]]] = {
        topic: {each: [] for each in range(PARTITIONS)} for topic in topics
    }
    try:
        missing = sum(
            consumer.get_watermark_offsets(TopicPartition(*each), PATIENCE_SECONDS)[1]
            for each in places
        )
        consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in places])
        while missing:
            messages = consumer.consume(min(missing, 5000), PATIENCE_SECONDS)
            if not messages:
                raise TimeoutError(f"{missing} records could not be read")
            for each in messages:
                topic, partition, offset = each.topic(), each.partition(), each.offset()
                assert not each.error(), each.error()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                found[topic][partition].append((offset, number_of(each.value())))
                missing -= 1
    finally:
        consumer.close()
    return found
