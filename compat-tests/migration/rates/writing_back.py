"""How fast gateways write the records of a switched topic back to Apache Kafka.

    compat-tests/run writing-back --brokers 3

One gateway mirrors a topic, which is then switched. librdkafka writes batches of one record to the
gateway, and ends.  Then the topic is rolled back, and the gateway writes the batches to Kafka.  The
time counts from the first batch that arrives there to the last.  `tidegate link verify` compares
all batches.  With --beside, librdkafka then writes the same batches to the same brokers, to measure
what the machine allows.  The exit status is 1 if a batch differs, or does not arrive.
"""

from __future__ import annotations

import random
import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness import broker, kafka_cluster
from runner.options import option
from runner.result import Result

from migration.mirror import PATIENCE_SECONDS, RESULT_SECONDS, Mirror

LINK: Final = "source"
TOPIC: Final = "back"
BESIDE: Final = "beside"
_LOOK_SECONDS: Final = 0.05
_MOST_SECONDS: Final = 600.0


class Ends:
    """The ends of the topic's partitions at the source."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
        self._partitions = partitions

    def total(self) -> int:
        """Return the sum of the ends."""
        return sum(
            self._consumer.get_watermark_offsets(TopicPartition(TOPIC, each), RESULT_SECONDS)[1]
            for each in range(self._partitions)
        )

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


@dataclass(frozen=True)
class Options:
    """The options."""

    brokers: int = option(1, choices=(1, kafka_cluster.NODES))
    partitions: int = 12
    batches: int = 6000
    size_bytes: int = option(200, "of a batch", flag="--bytes")
    beside: bool = option(False, "librdkafka writes them, too")


def run(options: Options) -> dict[str, Any]:
    """Run; return the figures, with the errors found as `problems`."""
    brokers, partitions, batches = options.brokers, options.partitions, options.batches
    size_bytes = options.size_bytes
    with ExitStack() as stack:
        kafka = stack.enter_context(kafka_cluster.running(brokers))
        gateway = broker.start("tidegate", {"link.topics.interval.ms": "1000"})
        assert isinstance(gateway, broker.LocalBroker)
        stack.callback(shutil.rmtree, gateway.folder / "data", ignore_errors=True)
        stack.callback(gateway.stop)
        mirror = Mirror("--data", str(gateway.folder / "data"))
        _switch(mirror, kafka.bootstrap, partitions, brokers)
        _write(gateway.bootstrap, TOPIC, partitions, batches, size_bytes)
        ends = Ends(kafka.bootstrap, partitions)
        stack.callback(ends.close)
        # The command returns once almost all batches are at the source.
        words = ("link", "rollback", LINK, TOPIC, "--yes")
        rollback = Thread(target=mirror.command, args=words, kwargs={"may_fail": True}, daemon=True)
        rollback.start()
        found = _measured(ends, batches)
        rollback.join()
        different = list(mirror.differences())
        if options.beside:
            gateway.stop()
            _create(kafka.bootstrap, BESIDE, partitions, brokers)
            begun = time.monotonic()
            _write(kafka.bootstrap, BESIDE, partitions, batches, size_bytes)
            taken = batches * size_bytes / (1 << 20) / (time.monotonic() - begun)
            found["librdkafka_mib_per_second"] = round(taken, 2)
    rate = found["batches"] / found["seconds"]
    return {
        **found,
        "batches_per_second": round(rate, 1),
        "per_partition": round(rate / partitions, 1),
        "mib_per_second": round(rate * size_bytes / (1 << 20), 2),
        "problems": [*found["problems"], *different],
    }


def _switch(mirror: Mirror, bootstrap: str, partitions: int, brokers: int) -> None:
    """Create the topic, mirror it and switch it."""
    _create(bootstrap, TOPIC, partitions, brokers)
    servers = ("--bootstrap-servers", bootstrap)
    mirror.command("link", "add", LINK, *servers, "--topics", TOPIC, "--forward-writes")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        told = mirror.command("link", "switch", LINK, TOPIC, "--yes", may_fail=True)
        if not told.get("reason", "no answer"):
            return
        time.sleep(1)
    raise TimeoutError(f"the topic is not switched: {told}")


def _create(bootstrap: str, topic: str, partitions: int, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(RESULT_SECONDS)


def _write(bootstrap: str, topic: str, partitions: int, batches: int, size_bytes: int) -> None:
    """Write batches of one record, spread over the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "enable.idempotence": True,
            "batch.num.messages": 1,
            "message.max.bytes": 2 << 20,
            "queue.buffering.max.kbytes": 64 << 10,
        }
    )
    value = random.Random(1).randbytes(size_bytes)
    for number in range(batches):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_MOST_SECONDS):
        raise TimeoutError(f"{topic} did not take all batches")


def _measured(ends: Ends, batches: int) -> dict[str, Any]:
    """Watch the batches arrive."""
    latest = time.monotonic() + _MOST_SECONDS
    begun = time.monotonic()
    first = total = ends.total()
    while total < batches and time.monotonic() < latest:
        if not first:
            begun, first = time.monotonic(), total
        time.sleep(_LOOK_SECONDS)
        total = ends.total()
    seconds = time.monotonic() - begun
    problems = [] if total >= batches else [f"{total} of {batches} batches arrived"]
    return {"batches": total - first, "seconds": round(seconds, 2), "problems": problems}


def main(options: Options) -> Result:
    """Run it."""
    figures = run(options)
    return Result(not figures["problems"], figures=figures)
