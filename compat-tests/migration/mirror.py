"""Topics of Apache Kafka are mirrored by a gateway while both get kill -9; every byte is compared.

    compat-tests/run mirror --minutes 3 --seed 1

librdkafka writes to Kafka in all codecs: plain, idempotent, and in transactions of which some
abort.  Meanwhile records are deleted there, topics get more partitions, and topics are created.  At
the end the gateway must have everything.  `tidegate link verify` compares batch by batch and record
by record, once from WAL objects and once from the segments of `tidegate pipeline once`.  The exit
status is 1 if anything differs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from harness import broker
from runner.options import option
from runner.result import Result
from runner.shared import Seeded

from migration.groups import wrong_moves
from migration.tidegate_command import run_tidegate

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_SECONDS: Final = 90.0
RESULT_SECONDS: Final = 30.0
_MOST_PARTITIONS: Final = 6


class Writers:
    """Producers of the source, and changes of its topics."""

    def __init__(self, bootstrap: str, rng: Random) -> None:
        self.records = 0
        self._bootstrap = bootstrap
        self._rng = rng
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._partitions: dict[str, int] = {}
        self._lives = 0
        self.create("orders", 3)
        self.create("stamped", 1, **{"message.timestamp.type": "LogAppendTime"})

    def create(self, name: str, partitions: int, **configs: str) -> None:
        """Create a topic."""
        topic = NewTopic(name, partitions, 1, config=configs)
        self._admin.create_topics([topic])[name].result(RESULT_SECONDS)
        self._partitions[name] = partitions

    def _producer(self, **more: Any) -> Producer:
        # The metadata of a topic that was just created, or got partitions, may be a moment late.
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "log_level": 0,
                "linger.ms": 5,
                "compression.type": self._rng.choice(CODECS),
                "topic.metadata.refresh.interval.ms": 500,
                **more,
            }
        )

    def _write(self, producer: Producer, count: int) -> None:
        name = self._rng.choice(list(self._partitions))
        for number in range(count):
            value = f"{name} {number} ".encode() * self._rng.randint(1, 40)
            key = f"k{self._rng.randrange(50)}".encode()
            producer.produce(name, value, key=key, headers={"n": str(number).encode()})
        self.records += count

    def act(self) -> None:
        """Write once, or change a topic."""
        acts = (self._plain, self._idempotent, self._transaction, self._transaction, self._change)
        self._rng.choice(acts)()

    def _plain(self) -> None:
        self._flushed(self._producer(acks="1"))

    def _idempotent(self) -> None:
        self._flushed(self._producer(**{"enable.idempotence": True}))

    def _flushed(self, producer: Producer) -> None:
        self._write(producer, self._rng.randint(1, 2000))
        producer.flush(RESULT_SECONDS)

    def _transaction(self) -> None:
        self._lives += 1
        producer = self._producer(**{"transactional.id": f"mirror-{self._lives % 3}"})
        producer.init_transactions(RESULT_SECONDS)
        for _ in range(self._rng.randint(1, 4)):
            producer.begin_transaction()
            self._write(producer, self._rng.randint(1, 200))
            if self._rng.random() < 0.4:
                producer.abort_transaction(RESULT_SECONDS)
            else:
                producer.commit_transaction(RESULT_SECONDS)

    def _change(self) -> None:
        name = self._rng.choice(list(self._partitions))
        match self._rng.randrange(3):
            case 0 if self._partitions[name] < _MOST_PARTITIONS:
                self._partitions[name] += 1
                wanted = NewPartitions(name, self._partitions[name])
                self._admin.create_partitions([wanted])[name].result(RESULT_SECONDS)
            case 1 if len(self._partitions) < _MOST_PARTITIONS:
                self.create(f"later-{len(self._partitions)}", 2)
            case _:
                place = TopicPartition(name, 0, self._rng.randint(1, 500))
                try:
                    self._admin.delete_records([place])[place].result(RESULT_SECONDS)
                except (KafkaException, KeyError):
                    return  # the partition has fewer records


class Mirror:
    """`tidegate link` beside a gateway.  place: the options that name the cluster."""

    def __init__(self, *place: str) -> None:
        self._place = place

    def command(self, *words: str, may_fail: bool = False) -> Any:
        """Run a command; see run_tidegate()."""
        return run_tidegate(*words, *self._place, may_fail=may_fail)

    def move(self, groups: Sequence[str]) -> Any:
        """Move groups to the gateway."""
        return self.command("link", "move-groups", "source", *groups, "--yes", may_fail=True)

    def is_complete(self, link: str = "source") -> bool:
        """Return whether the gateway has all records of the mirrored topics."""
        status = self.command("link", "status", link, may_fail=True)
        copies = status.get("copies", ())
        return bool(copies) and all(each["behind"] == 0 for each in copies)

    def differences(self, *more: str) -> Iterator[str]:
        """Compare both clusters; yield the differences."""
        for each in self.command("link", "verify", "source", *more, may_fail=True):
            if each["difference"]:
                yield f"{each['topic']}-{each['partition']} {more}: {each['difference']}"


def run(seconds: float, seed: int, *, every: float = 10.0) -> dict[str, Any]:
    """Run; return the figures, with the errors found as `problems`."""
    rng = Random(seed)
    with ExitStack() as stack:
        kafka, gateway = broker.start("kafka"), broker.start("tidegate")
        stack.callback(kafka.stop)
        stack.callback(gateway.stop)
        assert isinstance(kafka, broker.LocalBroker)
        assert isinstance(gateway, broker.LocalBroker)
        writers, mirror = (
            Writers(kafka.bootstrap, rng),
            Mirror("--data", str(gateway.folder / "data")),
        )
        servers = ("--bootstrap-servers", kafka.bootstrap)
        mirror.command("link", "add", "source", *servers, "--topics", ".*")
        kills = _work(writers, (kafka, gateway), rng, seconds, every)
        problems = [] if _wait(mirror) else ["the copies did not become complete"]
        figures = {"records": writers.records, "kills": kills, "problems": problems}
        problems += [*mirror.differences(), *mirror.differences("--records")]
        problems += wrong_moves(kafka.bootstrap, gateway.bootstrap, mirror.move)
        mirror.command("pipeline", "once", "--runner", "local")
        problems += [f"from segments: {each}" for each in mirror.differences()]
    return figures


def _work(
    writers: Writers,
    brokers: tuple[broker.LocalBroker, broker.LocalBroker],
    rng: Random,
    seconds: float,
    every: float,
) -> int:
    begun, kills = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        writers.act()
        if time.monotonic() - begun > every * (kills + 1):
            hurt = brokers[kills % 2]
            hurt.kill()
            time.sleep(rng.uniform(0, 3))
            hurt.restart()
            kills += 1
    return kills


def _wait(mirror: Mirror) -> bool:
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE_SECONDS:
        if mirror.is_complete():
            return True
        time.sleep(1)
    return False


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    minutes: float = 3.0
    every: float = option(10.0, "seconds between two kills")


def main(options: Options) -> Result:
    """Run it."""
    figures = run(options.minutes * 60, options.seed, every=options.every)
    problems = figures["problems"] or ["every byte is equal"]
    lines = [f"{figures['records']} records written, {figures['kills']} kills", *problems]
    return Result(not figures["problems"], "\n".join(lines), figures)
