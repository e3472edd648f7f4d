"""Producers that write at a steady pace, one for each partition, through librdkafka."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline.ledger import Ledger

PAUSE_SECONDS = 0.05
LINGER_MS = 300
GIVE_UP_SECONDS = 120
MAX_IN_FLIGHT = 400
ADMIN_SECONDS = 60.0
RECONNECT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 300}

# librdkafka logs every connection that a kill breaks.
quiet = logging.getLogger("pipeline.librdkafka")
quiet.addHandler(logging.NullHandler())
quiet.propagate = False


def producer_of(bootstrap: str, codec: str, *, is_exact: bool) -> Producer:
    """Return a producer for all streams of a kind, so that they share requests."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": is_exact,
        "compression.type": codec,
        "message.timeout.ms": GIVE_UP_SECONDS * 1000,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 200,
        "linger.ms": LINGER_MS,
        "socket.timeout.ms": 10_000,
        **RECONNECT,
    }
    return Producer(settings, logger=quiet)


class Stream:
    """One partition's records.  records_per_second: its pace."""

    def __init__(self, producer: Producer, ledger: Ledger, records_per_second: float) -> None:
        self.ledger = ledger
        self.records_per_second = records_per_second
        self._due = 0.0
        self._producer = producer

    def work(self, seconds: float) -> None:
        """Write the records that become due in the next `seconds`."""
        self._due += seconds * self.records_per_second
        while self._due >= 1 and len(self._producer) < MAX_IN_FLIGHT:
            self._due -= 1
            self._write()
        self._due = min(self._due, self.records_per_second)
        self._producer.poll(0)

    def _write(self) -> None:
        ledger = self.ledger
        number = len(ledger.timestamps)
        ledger.timestamps.append(int(time.time() * 1000))
        record = ledger.record(number)
        self._producer.produce(
            ledger.topic,
            record.value,
            record.key,
            ledger.partition,
            on_delivery=_Told(ledger, number),
            timestamp=record.timestamp_ms,
            headers=record.headers,
        )

    def finish(self) -> None:
        """Wait until every record has an answer."""
        if self._producer.flush(GIVE_UP_SECONDS):
            raise TimeoutError(f"{self.ledger.name}: records had no answer")

    def give_up(self) -> None:
        """Fail all records that have no answer yet."""
        self._producer.purge()
        self._producer.flush(1)


@dataclass(frozen=True, slots=True)
class _Told:
    """Records the outcome of one record."""

    ledger: Ledger
    number: int

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.ledger.unknown.add(self.number)
            return
        offset = message.offset()
        self.ledger.acknowledge(self.number, -1 if offset is None else offset)


class Load:
    """Writes all streams in a thread, until finish()."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = list(streams)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Stop, and wait until every record has an answer; raise the thread's error, if any."""
        self._stop.set()
        self._thread.join(GIVE_UP_SECONDS * 2)
        if self._thread.is_alive():
            raise TimeoutError("the load does not stop")
        self.check()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            before = time.monotonic()
            while not self._stop.wait(PAUSE_SECONDS):
                now = time.monotonic()
                for each in self._streams:
                    each.work(now - before)
                before = now
            for each in self._streams:
                each.finish()
        except BaseException as error:
            self._error = error


class Doomed:
    """A topic that is written to until it is deleted, and replaced by another topic."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._number = 0
        self._stream: Stream | None = None
        self._load: Load | None = None
        self.topic = ""

    def begin(self) -> None:
        """Create the next topic, and write to it."""
        self._number += 1
        self.topic = f"doomed-{self._number}"
        create_topic(self._bootstrap, self.topic, 1)
        producer = producer_of(self._bootstrap, "zstd", is_exact=True)
        self._stream = Stream(producer, Ledger(self.topic, 0, "zstd", True), 40)
        self._load = Load([self._stream])
        self._load.start()

    def end(self) -> None:
        """Delete it while it is written to."""
        if self._stream is None or self._load is None:
            return
        delete_topic(self._bootstrap, self.topic)
        self._stream.give_up()
        self._load.finish()
        self._stream = self._load = None


def create_topic(
    bootstrap: str, name: str, partitions: int, config: dict[str, str] | None = None
) -> None:
    """Create a topic.  It may exist already, since the answer to a first try may be lost."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=quiet)
    topic = NewTopic(name, partitions, 1, config=config or {})
    try:
        admin.create_topics([topic], operation_timeout=30)[name].result(ADMIN_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic.  It may be deleted already."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=quiet)
    try:
        admin.delete_topics([name], operation_timeout=30)[name].result(ADMIN_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
