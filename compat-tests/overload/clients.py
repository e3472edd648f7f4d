"""The clients of an overload run, through librdkafka: a flood, a probe, and members of a group."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

FLOOD_TOPIC = "flood"
PROBE_TOPIC = "probe"
GROUP = "overload-group"
PARTITIONS = 24
RECORD_BYTES = 10_000
TICK_SECONDS = 0.01
PROBE_SECONDS = 0.1
SESSION_MS = 6_000

# librdkafka logs every slow request.
_quiet = logging.getLogger("overload.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def create_topics(bootstrap: str) -> None:
    """Create both topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(FLOOD_TOPIC, PARTITIONS, 1), NewTopic(PROBE_TOPIC, 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result(30)


@dataclass(slots=True)
class Flood:
    """One producer that offers bytes_per_second, whether the gateway takes them or not."""

    bootstrap: str
    bytes_per_second: float
    idempotent: bool
    offered_bytes: int = 0
    delivered_bytes: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Offer records until stop is set; drop the records that are not sent by then."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": self.idempotent,
                "linger.ms": 5,
                "queue.buffering.max.kbytes": 64 << 10,
                "request.timeout.ms": 30_000,
            },
            logger=_quiet,
        )
        record, begun = b"x" * RECORD_BYTES, time.monotonic()
        while not stop.wait(TICK_SECONDS):
            due = (time.monotonic() - begun) * self.bytes_per_second
            while self.offered_bytes < due:
                self._offer(producer, record)
            producer.poll(0)
        producer.purge()
        producer.flush(10)

    def _offer(self, producer: Producer, record: bytes) -> None:
        self.offered_bytes += len(record)
        try:
            producer.produce(FLOOD_TOPIC, record, on_delivery=self._told)
        except BufferError:  # the queue is full, so this record is dropped
            producer.poll(0)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered_bytes += RECORD_BYTES
        elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            name = error.name()
            self.errors[name] = self.errors.get(name, 0) + 1


@dataclass(slots=True)
class Probe:
    """A light producer.  answered: (when an answer came, how long it took), in seconds."""

    bootstrap: str
    answered: list[tuple[float, float]] = field(default_factory=list)
    errors: int = 0

    def run(self, stop: threading.Event) -> None:
        """Send a record each PROBE_SECONDS."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 0, "enable.idempotence": True},
            logger=_quiet,
        )
        next_at = time.monotonic()
        while not stop.is_set():
            producer.poll(max(next_at - time.monotonic(), 0))
            if time.monotonic() >= next_at:
                sent = time.monotonic()
                value = str(sent).encode()
                producer.produce(PROBE_TOPIC, value, on_delivery=self._on_delivery(sent))
                next_at += PROBE_SECONDS
        producer.flush(30)

    def _on_delivery(self, sent: float) -> Any:
        def told(error: KafkaError | None, message: Message) -> None:
            now = time.monotonic()
            if error is None:
                self.answered.append((now, now - sent))
            else:
                self.errors += 1

        return told


@dataclass(slots=True)
class ProbeReader:
    """Reads the probe's records.

    read: for each record, when it came, and how long after its sending, in seconds.
    """

    bootstrap: str
    read: list[tuple[float, float]] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        """Read from the end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{GROUP}-probe",
                "auto.offset.reset": "latest",
                "session.timeout.ms": SESSION_MS,
            },
            logger=_quiet,
        )
        consumer.subscribe([PROBE_TOPIC])
        while not stop.is_set():
            for message in consumer.consume(100, timeout=0.1):
                value = message.value()
                if message.error() is None and value is not None:
                    now = time.monotonic()
                    self.read.append((now, now - float(value)))
        consumer.close()


@dataclass(slots=True)
class Member:
    """A member of the group that reads the flood.  changes: the times of its rebalances."""

    bootstrap: str
    read_bytes: int = 0
    changes: list[float] = field(default_factory=list)
    lost: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Be a member until stop is set."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "latest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 1_000,
                "auto.commit.interval.ms": 1_000,
                "queued.max.messages.kbytes": 16 << 10,
            },
            logger=_quiet,
        )
        consumer.subscribe([FLOOD_TOPIC], on_assign=self._changed, on_lost=self._on_lost)
        while not stop.is_set():
            for message in consumer.consume(200, timeout=0.1):
                value, error = message.value(), message.error()
                if error is not None:
                    self.errors[error.name()] = self.errors.get(error.name(), 0) + 1
                elif value is not None:
                    self.read_bytes += len(value)
        consumer.close()

    def _changed(self, consumer: Consumer, partitions: Any) -> None:
        self.changes.append(time.monotonic())

    def _on_lost(self, consumer: Consumer, partitions: Any) -> None:
        self.lost += 1
