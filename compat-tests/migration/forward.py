"""Producers write to mirrored topics of Apache Kafka through gateways that get kill -9.

    compat-tests/run forward --minutes 2 --seed 1

Two gateways forward what librdkafka and the Java client write, both idempotent and pipelined.  At
the end the source and the copy must have every acknowledged record exactly once, in order, at its
offset.  Otherwise the exit status is 1.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from crash import load
from crash.ledger import Ledger, judge
from harness import broker
from harness.places import ROOT, WORK
from harness.process import free_ports
from runner.options import option
from runner.result import Result
from runner.shared import Seeded

from migration import java_writer
from migration.mirror import PATIENCE_SECONDS, Mirror

GATEWAYS: Final = 2
LINK: Final = "source"
_RESULT_SECONDS: Final = 30.0
_BEFORE_FIRST_KILL: Final = 3.0


def _gateway(node_id: int, folder: Path) -> broker.LocalBroker:
    """Return a gateway of the cluster in a folder, not started."""
    port, admin_port = free_ports(2)
    settings = {
        "node.id": str(node_id),
        "broker.rack": "default",
        "cluster.id": "forward-test",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "admin.listener": f"127.0.0.1:{admin_port}",
        "metadata.log": _log_of(folder),
        "object.store": f"file:{folder / 'objects'}",
        "lease.ms": "5000",
        "link.fetch.wait.ms": "200",
    }
    own = folder / str(node_id)
    own.mkdir()
    command = [str(ROOT / "tidegate"), "serve", "--data", str(own / "data")]
    command += [word for each in settings.items() for word in ("--set", "{}={}".format(*each))]
    return broker.LocalBroker(command, port, own)


def _log_of(folder: Path) -> str:
    return f"sqlite:{folder / 'metadata.db'}"


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [
        NewTopic(load.TOPIC, load.PARTITIONS, 1),
        NewTopic(java_writer.TOPIC, java_writer.PARTITIONS, 1),
    ]
    for made in admin.create_topics(topics).values():
        made.result(_RESULT_SECONDS)


def run(seconds: float, seed: int, *, every: float = 6.0) -> dict[str, Any]:
    """Run; return the figures, with the errors found as `problems`."""
    rng = Random(seed)
    folder = WORK / "brokers" / "forward"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        kafka = broker.start("kafka")
        stack.callback(kafka.stop)
        _create_topics(kafka.bootstrap)
        gateways = [_gateway(number + 1, folder) for number in range(GATEWAYS)]
        for each in gateways:
            each.start()
            stack.callback(each.stop)
        mirror = Mirror("--log", _log_of(folder))
        mirror.command(
            *("link", "add", LINK, "--bootstrap-servers", kafka.bootstrap),
            *("--topics", ".*", "--forward-writes"),
        )
        servers = ",".join(each.bootstrap for each in gateways)
        _wait(mirror)
        ledgers, kills = _write(servers, gateways, rng, seconds, every)
        problems = [] if _wait(mirror) else ["the copies did not become complete"]
        problems += _problems(ledgers, kafka.bootstrap, "source")
        problems += _problems(ledgers, gateways[0].bootstrap, "copy")
    counts = {name: ledger.count for name, (ledger, _) in ledgers.items()}
    return {"acknowledged": counts, "kills": kills, "problems": problems}


_Ledgers = dict[str, tuple[Ledger, int]]
"""By topic: the acknowledged records, and the number of partitions."""


def _write(
    servers: str, gateways: Sequence[broker.LocalBroker], rng: Random, seconds: float, every: float
) -> tuple[_Ledgers, int]:
    production = load.Production(servers)
    worker = load.Worker(production)
    worker.start()
    java = java_writer.JavaWriter(servers, gateways[0].folder.parent)
    java.until_it_writes()
    begun, kills = time.monotonic(), 0
    time.sleep(_BEFORE_FIRST_KILL)
    while time.monotonic() - begun < seconds:
        hurt = gateways[kills % len(gateways)]
        hurt.kill()
        time.sleep(rng.uniform(0, 2))
        hurt.restart()
        kills += 1
        worker.check()
        time.sleep(rng.uniform(0, every))
    worker.finish()
    java.stop()
    return {
        load.TOPIC: (production.ledger, load.PARTITIONS),
        java_writer.TOPIC: (java.ledger, java_writer.PARTITIONS),
    }, kills


def _problems(ledgers: _Ledgers, bootstrap: str, where: str) -> Iterator[str]:
    for topic, (ledger, partitions) in ledgers.items():
        verdict = judge(ledger, load.read_everything(bootstrap, topic, partitions))
        yield from (f"{where}, {topic}: {each}" for each in verdict.examples)
        yield from (f"{topic}: record {each} failed: {why}" for each, why in ledger.failed[:3])
        if not ledger.count:
            yield f"{topic}: nothing was acknowledged"


def _wait(mirror: Mirror) -> bool:
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE_SECONDS:
        if mirror.is_complete(LINK):
            return True
        time.sleep(1)
    return False


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    minutes: float = 2.0
    every: float = option(6.0, "most seconds between two kills")


def main(options: Options) -> Result:
    """Run it."""
    figures = run(options.minutes * 60, options.seed, every=options.every)
    problems = figures["problems"] or ["every record is there once, in order"]
    lines = [f"{figures['acknowledged']} acknowledged, {figures['kills']} kills", *problems]
    return Result(not figures["problems"], "\n".join(lines), figures)
