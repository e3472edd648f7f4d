"""Writes and reads records with librdkafka, for tests of real gateways."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer

PATIENCE_SECONDS = 60.0


def produce(servers: str, *values: str, **settings: str) -> None:
    """Write to topic greetings; all must be acknowledged.  settings: with _ for dots."""
    named = {name.replace("_", "."): text for name, text in settings.items()}
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True} | named)
    for value in values:
        producer.produce("greetings", value)
    assert producer.flush(PATIENCE_SECONDS) == 0


def consume(servers: str, count: int, group: str = "g") -> list[str]:
    """Return the values of `count` records of greetings, read as a member of a group."""
    settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe(["greetings"])
        messages = consumer.consume(count, PATIENCE_SECONDS)
        assert [each.error() for each in messages] == [None] * count
        return [(each.value() or b"").decode() for each in messages]
    finally:
        consumer.close()
