"""The two brokers, each with what compacts its topics."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from harness.broker import LocalBroker, running
from harness.process import tail
from pipeline.audit import load
from pipeline.drivers import Drivers
from pipeline.load import quiet

from compaction.transactional import PRODUCERS, End, Step
from compaction.workloads import FILLER_KEY, Placed, Row, Workload
from tidegate_coordination.events.cluster import RUN_SEGMENT

SECONDS = 60.0
PIPELINE = ["--segment-bytes", "16384", "--rest-ms", "0", "--patience-ms", "0"]
KAFKA_SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.threads": "1",
    "auto.create.topics.enable": "false",
}


class Topic(Protocol):
    """A workload's topic."""

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    def config(self) -> dict[str, str]:
        """Return its settings, for both brokers."""
        ...


class Side(Protocol):
    """A broker whose topics are compacted."""

    name: str
    bootstrap: str

    def cleaned_to(self) -> dict[str, int]:
        """Return for each topic the offset below which it has been compacted."""
        ...

    def tail(self) -> str:
        """Return the last lines of its output."""
        ...


class Kafka:
    """Apache Kafka.  Its log cleaner keeps its progress in a file."""

    name = "Apache Kafka"

    def __init__(self, broker: LocalBroker) -> None:
        self.bootstrap = broker.bootstrap
        self._broker = broker

    def cleaned_to(self) -> dict[str, int]:
        """See Side."""
        path = self._broker.folder / "data" / "cleaner-offset-checkpoint"
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        rows = [line.split() for line in lines]
        return {topic: int(offset) for topic, _, offset in rows}

    def tail(self) -> str:
        """See Side."""
        return tail(self._broker.log)


class Tidegate:
    """A gateway, and a driver of the pipeline without Spark."""

    name = "Tidegate"

    def __init__(self, broker: LocalBroker, data: Path, drivers: Drivers) -> None:
        self.bootstrap = broker.bootstrap
        self._data = data
        self._drivers = drivers

    def cleaned_to(self) -> dict[str, int]:
        """See Side."""
        state = load(self._data)
        found: dict[str, int] = {}
        for topic in state.topics.by_id.values():
            cleanings = state.partitions[topic.partition_numbers[0]].cleanings
            found[topic.name] = cleanings[-1].end_offset if cleanings else 0
        return found

    def merged_to(self) -> dict[str, int]:
        """Return for each topic the offset below which all records are in segments."""
        state = load(self._data)
        found: dict[str, int] = {}
        for topic in state.topics.by_id.values():
            partition = state.partitions[topic.partition_numbers[0]]
            rows = [partition.runs[at] for at in range(len(partition.runs))]
            left = [row.base_offset for row in rows if not row.flags & RUN_SEGMENT]
            found[topic.name] = left[0] if left else partition.next_offset
        return found

    def tail(self) -> str:
        """See Side."""
        return "\n".join(each.log_text()[-2000:] for each in self._drivers.alive)


@contextmanager
def both_sides() -> Generator[tuple[Kafka, Tidegate]]:
    """Run both.

    Raises:
      MissingTool: there is no Java, or no Maven to fetch Kafka with.
    """
    with running("kafka", KAFKA_SETTINGS) as kafka, running("tidegate") as gateway:
        assert isinstance(kafka, LocalBroker)
        assert isinstance(gateway, LocalBroker)
        data = gateway.folder / "data"
        drivers = Drivers(data, gateway.folder, "", runner="local", sizes=PIPELINE)
        drivers.start(speculation=False, small=True)
        try:
            yield Kafka(kafka), Tidegate(gateway, data, drivers)
        finally:
            drivers.stop_all()


def create(side: Side, workloads: Iterable[Topic]) -> None:
    """Create the workloads' topics."""
    # The stub of NewTopic is elsewhere than that of the client.
    from confluent_kafka.cimpl import NewTopic

    topics = [NewTopic(each.name, 1, 1, config=each.config()) for each in workloads]
    admin = _admin(side)
    for future in admin.create_topics(topics).values():
        future.result(SECONDS)


def set_policy(side: Side, names: Iterable[str], policy: str) -> None:
    """Set cleanup.policy of topics."""
    admin = _admin(side)
    for name in names:
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        [future] = admin.incremental_alter_configs([resource]).values()
        future.result(SECONDS)


def write(side: Side, workload: Workload, rows: Sequence[Row], first_offset: int) -> None:
    """Write records one after another; they must get the offsets from the first one on."""
    producer = Producer(
        {
            "bootstrap.servers": side.bootstrap,
            "enable.idempotence": True,
            "compression.type": workload.codec,
            "batch.num.messages": workload.batch,
            "linger.ms": 5,
        },
        logger=quiet,
    )
    told: list[int] = []

    def done(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        told.append(-1 if error is not None or offset is None else offset)

    for row in rows:
        producer.produce(
            workload.name,
            row.value,
            row.key,
            0,
            on_delivery=done,
            timestamp=row.timestamp_ms,
            headers=list(row.headers),
        )
        producer.poll(0)
        if row.key == FILLER_KEY:
            producer.flush(SECONDS)  # a batch of its own
    producer.flush(SECONDS)
    if told != list(range(first_offset, first_offset + len(rows))):
        raise RuntimeError(f"{side.name}: {workload.name} was not written as it should be")


class TransactionalWriter:
    """Three transactional producers of one topic, which take turns.

    Apache Kafka answers the end of a transaction before it has written the marker.  So each step
    waits until its records or its marker are written, and the offsets of the next step are known.
    """

    def __init__(self, side: Side, workload: Workload) -> None:
        self._topic: Final = workload.name
        self._producers: Final = [
            Producer(
                {
                    "bootstrap.servers": side.bootstrap,
                    "transactional.id": f"{workload.name}-{number}",
                    "compression.type": workload.codec,
                    "batch.num.messages": workload.batch,
                    "linger.ms": 1,
                },
                logger=quiet,
            )
            for number in range(PRODUCERS)
        ]
        for each in self._producers:
            each.init_transactions(SECONDS)
        self._open: Final[set[int]] = set()
        self._end = 0
        # With read_committed the end would be the last stable offset.
        settings = {"group.id": "nobody", "isolation.level": "read_uncommitted"}
        settings |= {"bootstrap.servers": side.bootstrap}
        self._watcher: Final = Consumer(settings, logger=quiet)

    def close(self) -> None:
        """Close its connections."""
        self._watcher.close()

    def play(self, steps: Sequence[Step]) -> None:
        """Take steps, in their order."""
        for step in steps:
            producer = self._producers[step.producer]
            if isinstance(step, End):
                self._open.remove(step.producer)
                end = producer.commit_transaction if step.is_committed else None
                (end or producer.abort_transaction)(SECONDS)
                self._await_end(1)
                continue
            if step.producer not in self._open:
                producer.begin_transaction()
                self._open.add(step.producer)
            for row in step.rows:
                stamp, headers = row.timestamp_ms, [*row.headers]
                producer.produce(
                    self._topic, row.value, row.key, 0, timestamp=stamp, headers=headers
                )
            if producer.flush(SECONDS):
                raise TimeoutError(f"{self._topic}: records were not written")
            self._await_end(len(step.rows))

    def _await_end(self, added: int) -> None:
        """Wait until the partition has `added` more offsets."""
        self._end += added
        deadline = time.monotonic() + SECONDS
        while True:
            place = TopicPartition(self._topic, 0)
            _, end = self._watcher.get_watermark_offsets(place, SECONDS, cached=False)
            if end == self._end:
                return
            if end > self._end or time.monotonic() > deadline:
                raise TimeoutError(f"{self._topic}: ends at {end}, not at {self._end}")


def read(side: Side, name: str, isolation: str = "read_committed") -> list[Placed]:
    """Return all that a topic holds for a reader of an isolation level."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.bootstrap,
            "isolation.level": isolation,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        },
        logger=quiet,
    )
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
    found: list[Placed] = []
    deadline = time.monotonic() + SECONDS
    try:
        while True:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{side.name}: {name} cannot be read to its end")
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                if error is None:
                    found.append(_placed(message))
    finally:
        consumer.close()


def _placed(message: Message) -> Placed:
    headers: Any = message.headers()
    row = Row(
        message.key(),
        message.value(),
        int(message.timestamp()[1]),
        tuple(map(tuple, headers or ())),
    )
    return Placed(int(message.offset() or 0), row)


def _admin(side: Side) -> AdminClient:
    return AdminClient({"bootstrap.servers": side.bootstrap}, logger=quiet)
