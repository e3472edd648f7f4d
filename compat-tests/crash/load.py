"""The load: an idempotent producer and a consumer group, each in a thread, through librdkafka."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from crash.ledger import GroupProgress, Ledger

TOPIC = "crash"
GROUP = "crash-group"
PARTITIONS = 12
PADDING = b"." * 80
MAX_IN_FLIGHT = 2000
PAUSE_SECONDS = 0.005
BURST = 20  # records between pauses: at most 4,000 a second
COMMIT_EVERY = 200
GIVE_UP_SECONDS = 120
SESSION_MS = 1500  # a rebalance waits so long for a member that does not answer
RECONNECT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}

# librdkafka logs every connection that a kill breaks.
_quiet = logging.getLogger("crash.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def create_topic(bootstrap: str) -> None:
    """Create the topic of the run."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)


class Load(Protocol):
    """A thread that works until a test stops it."""

    def run(self, stop: threading.Event) -> None:
        """Work; returns soon after `stop` is set."""
        ...


class Worker:
    """Runs a load in a thread, and raises its error to the caller."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=type(load).__name__, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Stop the load, and wait for its end; raise its error, if any."""
        self._stop.set()
        self._thread.join(GIVE_UP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} did not stop")
        self.check()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._load.run(self._stop)
        except BaseException as error:
            self._error = error


class Production:
    """Numbers records from 0 and spreads them over the partitions."""

    def __init__(self, bootstrap: str) -> None:
        self.ledger = Ledger()
        self._number = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": GIVE_UP_SECONDS * 1000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "socket.timeout.ms": 10_000,
                **RECONNECT,
            },
            logger=_quiet,
        )

    def run(self, stop: threading.Event) -> None:
        """See Load.  Waits at the end until every record has an answer."""
        while not stop.wait(PAUSE_SECONDS):
            if len(self._producer) < MAX_IN_FLIGHT:
                self._produce_some()
            self._producer.poll(0)
        left = self._producer.flush(GIVE_UP_SECONDS)
        if left:
            raise TimeoutError(f"{left} records had no answer")

    def give_up(self) -> None:
        """Fail all records that have no answer yet."""
        self._producer.purge()

    def _produce_some(self) -> None:
        for number in range(self._number, self._number + BURST):
            self._producer.produce(
                TOPIC,
                b"%d %s" % (number, PADDING),
                partition=number * 7919 % PARTITIONS,
                on_delivery=_Told(self.ledger, number),
            )
        self._number += BURST


@dataclass(frozen=True, slots=True)
class _Told:
    """Records the outcome of one record."""

    ledger: Ledger
    number: int

    def __call__(self, error: Any, message: Message) -> None:
        if error is not None:
            self.ledger.failed.append((self.number, str(error)))
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.ledger.acknowledge(partition, offset, self.number)


@dataclass(slots=True)
class Consumption:
    """One member of a group that is replaced when `renew` is set.

    A member that leaves does not commit the records that it read last, so the next member must
    begin at the committed offsets.
    """

    bootstrap: str
    progress: dict[int, GroupProgress] = field(
        default_factory=lambda: {each: GroupProgress() for each in range(PARTITIONS)}
    )
    problems: list[str] = field(default_factory=list)
    delivered: int = 0
    commits: int = 0
    members: int = 0
    renew: threading.Event = field(default_factory=threading.Event)
    _uncommitted: dict[int, int] = field(default_factory=dict, init=False)
    _seen: set[int] = field(default_factory=set, init=False)

    def run(self, stop: threading.Event) -> None:
        """See Load."""
        while not stop.is_set():
            self.renew.clear()
            self._uncommitted.clear()
            self._seen.clear()
            self.members += 1
            consumer = Consumer(_consumer_settings(self.bootstrap), logger=_quiet)
            try:
                consumer.subscribe([TOPIC])
                self._be_member(consumer, stop)
            finally:
                consumer.close()

    def _be_member(self, consumer: Consumer, stop: threading.Event) -> None:
        since_commit = 0
        while not (stop.is_set() or self.renew.is_set()):
            messages = consumer.consume(num_messages=100, timeout=0.1)
            for message in messages:
                self._note(message)
            since_commit += len(messages)
            if since_commit >= COMMIT_EVERY:
                self._commit(consumer)
                since_commit = 0

    def _note(self, message: Message) -> None:
        if message.error() is not None:
            return  # a gateway is down; librdkafka tries again
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        problem = self.progress[partition].delivered(
            offset, is_first_of_member=partition not in self._seen
        )
        if problem is not None:
            self.problems.append(f"group, partition {partition}: {problem}")
        self._seen.add(partition)
        self._uncommitted[partition] = offset + 1
        self.delivered += 1

    def _commit(self, consumer: Consumer) -> None:
        offsets = [TopicPartition(TOPIC, *each) for each in self._uncommitted.items()]
        for partition, offset in self._uncommitted.items():
            here = self.progress[partition]
            here.attempted = max(here.attempted, offset)
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # the outcome is unknown, or the member was fenced; a later commit shows more
        for answer in answers or ():
            if answer.error is None:
                self.progress[answer.partition].committed = answer.offset
        self.commits += 1


def _consumer_settings(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": SESSION_MS,
        "max.poll.interval.ms": 10_000,
        "heartbeat.interval.ms": 300,
        "socket.timeout.ms": 10_000,
        **RECONNECT,
    }


def read_everything(
    bootstrap: str, topic: str = TOPIC, partitions: int = PARTITIONS
) -> Mapping[int, list[tuple[int, int]]]:
    """Read a topic from its start: partition -> (offset, number) in order."""
    consumer = Consumer({**_consumer_settings(bootstrap), "enable.partition.eof": False})
    try:
        ends = {
            each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30)[1]
            for each in range(partitions)
        }
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in ends])
        return _read_to(consumer, ends)
    finally:
        consumer.close()


def _read_to(consumer: Consumer, ends: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {each: [] for each in ends}
    missing = sum(ends.values())
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while missing and time.monotonic() < deadline:
        for message in consumer.consume(num_messages=5000, timeout=1.0):
            value, partition, offset = message.value(), message.partition(), message.offset()
            if message.error() is not None or value is None:
                continue
            assert partition is not None
            assert offset is not None
            found[partition].append((offset, int(value.split(b" ")[0])))
            missing -= 1
    if missing:
        raise TimeoutError(f"{missing} of {sum(ends.values())} records could not be read")
    return found


def committed_offsets(bootstrap: str) -> dict[int, int]:
    """Return the offsets that the group has committed, by partition; -1001 for none."""
    consumer = Consumer(_consumer_settings(bootstrap))
    try:
        asked = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=30)}
    finally:
        consumer.close()
