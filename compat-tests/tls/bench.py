"""CPU of a broker per MiB, in and out, with plaintext and TLS: a gateway and Apache Kafka in turns.

    compat-tests/run tls-bench [--mib N] [--rounds N]        on a quiet machine

Each round produces and reads MIB of records of 1 KiB in batches of up to 1 MB by librdkafka.  The
first round warms up and does not count.  The figures are medians of the others.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from runner.options import option
from runner.result import Result

from tidegate_bench.measure.proc import cpu_seconds

from .brokers import TwoListeners, gateway, kafka
from .certificates import Files, make_files

RECORD_BYTES = 1024
PATIENCE_SECONDS = 120.0
MIB = 1 << 20


def cpu_of(pid: int, work: object, mib: int) -> float:
    """Return the CPU in ms per MiB that a process needs while work is done."""
    before = cpu_seconds(pid)
    work()  # type: ignore[operator]
    return (cpu_seconds(pid) - before) * 1000 / mib


def produce(settings: dict[str, str], topic: str, mib: int) -> None:
    """Produce to the only partition of a topic."""
    values = [Random(each).randbytes(RECORD_BYTES) for each in range(64)]
    producer = Producer(
        {**settings, "linger.ms": "50", "batch.size": str(1_000_000), "acks": "all"}
    )
    for number in range(mib * MIB // RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, values[number % 64], partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(PATIENCE_SECONDS) == 0


def consume(settings: dict[str, str], topic: str, mib: int) -> None:
    """Read the whole partition."""
    consumer = Consumer(
        {
            **settings,
            "group.id": "bench",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": str(MIB),
            "check.crcs": "false",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    wanted = mib * MIB // RECORD_BYTES
    while wanted > 0:
        found = consumer.consume(min(wanted, 10_000), PATIENCE_SECONDS)
        assert found
        wanted -= sum(1 for each in found if not each.error())
    consumer.close()


def one_round(
    broker: TwoListeners, files: Files, topic: str, mib: int
) -> dict[tuple[str, str], float]:
    """Return CPU in ms per MiB by protocol and direction."""
    admin = AdminClient({"bootstrap.servers": broker.plain})
    found: dict[tuple[str, str], float] = {}
    for protocol in ("plain", "tls"):
        name = f"{topic}-{protocol}"
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(PATIENCE_SECONDS)
        address = broker.tls if protocol == "tls" else broker.plain
        settings = {"bootstrap.servers": address}
        if protocol == "tls":
            settings |= files.librdkafka()
        for way, work in (("in", produce), ("out", consume)):

            def run(
                work: object = work, settings: dict[str, str] = settings, name: str = name
            ) -> None:
                work(settings, name, mib)  # type: ignore[operator]

            found[protocol, way] = cpu_of(broker.pid, run, mib)
        admin.delete_topics([name])[name].result(PATIENCE_SECONDS)
    return found


@dataclass(frozen=True)
class Options:
    """The options."""

    mib: int = option(128, "of each round")
    rounds: int = 5


def main(options: Options) -> Result:
    """Print the table."""
    figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    with ExitStack() as stack:
        files = make_files(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        brokers = {
            "gateway": stack.enter_context(gateway(files)),
            "kafka": stack.enter_context(kafka(files)),
        }
        for number in range(options.rounds + 1):
            for name, broker in brokers.items():
                for key, value in one_round(broker, files, f"t{number}", options.mib).items():
                    if number:
                        figures[name, *key].append(value)
    print("| broker | way | plain | TLS | TLS adds |\n|---|---|---|---|---|")
    for name in brokers:
        for way in ("in", "out"):
            plain = median(figures[name, "plain", way])
            tls = median(figures[name, "tls", way])
            print(f"| {name} | {way} | {plain:.2f} | {tls:.2f} | {tls - plain:.2f} |")
    return Result(is_good=True)
