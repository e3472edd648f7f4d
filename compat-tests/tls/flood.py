"""A good client's latency while strangers make TLS handshakes, and never log in.

    compat-tests/run tls-flood [--seconds N] [--rate N]      on a quiet machine

One client of librdkafka writes a record at a time to a listener with SASL_SSL, and waits for its
acknowledgement.  It does so alone and beside the strangers, in turns.  At a gateway on SeaweedFS
and SQLite, the 99th percentile of the wait may at most double beside the strangers.  At a gateway
in memory it must grow less than at Apache Kafka.  There a record takes a third of a millisecond, so
that handshakes matter most.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import quantiles
from typing import Final

from confluent_kafka import Producer
from crash.seaweed_store import seaweed_store
from runner.options import option
from runner.result import Result

from .brokers import TwoListeners, gateway, kafka
from .certificates import Files, make_files

ROUNDS: Final = 3
MOST: Final = 2.0
PATIENCE_SECONDS: Final = 60.0
PASSWORD: Final = "secret"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def strangers(port: int, ca: str, rate: int, end: Event) -> None:
    """Make handshakes at a rate until the event; print how many there were."""
    os.nice(19)  # in reality strangers use another machine's CPU
    asyncio.run(_strangers(port, ssl.create_default_context(cafile=ca), rate, end))


async def _strangers(port: int, context: ssl.SSLContext, rate: int, end: Event) -> None:
    made = 0
    begun = time.monotonic()

    async def one() -> None:
        nonlocal made
        with suppress(OSError, ssl.SSLError, TimeoutError):
            async with asyncio.timeout(10):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=context, server_hostname="localhost"
                )
                made += 1
                writer.close()

    async with asyncio.TaskGroup() as group:
        number = 0
        while not end.is_set():
            number += 1
            group.create_task(one())
            await asyncio.sleep(max(begun + number / rate - time.monotonic(), 0))
    print(f"{made / (time.monotonic() - begun):.0f} handshakes a second", file=sys.stderr)


@contextmanager
def flooding(port: int, files: Files, rate: int) -> Generator[None]:
    """Have strangers in another process during the block."""
    context = get_context("spawn")
    end = context.Event()
    process = context.Process(target=strangers, args=(port, str(files.ca), rate, end))
    process.start()
    try:
        yield
    finally:
        end.set()
        process.join(PATIENCE_SECONDS)


def latencies(producer: Producer, topic: str, seconds: float) -> list[float]:
    """Return the ms from each record to its acknowledgement, one at a time."""
    found: list[float] = []
    until = time.monotonic() + seconds
    while (begun := time.monotonic()) < until:
        producer.produce(topic, b"x" * 100, partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0
        found.append((time.monotonic() - begun) * 1000)
    return found


@dataclass(frozen=True)
class Options:
    """The options."""

    seconds: int = option(10, "of each phase")
    rate: int = option(500, "handshakes a second")


def main(options: Options) -> Result:
    """Print both percentiles of each phase; the result is bad if an aim is missed."""
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(Path(folder))
        growth = {
            name: _growth(name, opened, files, options.seconds, options.rate)
            for name, opened in BROKERS.items()
        }
    return Result(growth["tidegate"] <= MOST and growth["in memory"] <= growth["kafka"])


@contextmanager
def _on_a_store(files: Files) -> Generator[TwoListeners]:
    with tempfile.TemporaryDirectory() as folder, seaweed_store(Path(folder)) as url:
        places = {"object.store": url, "metadata.log": f"sqlite:{folder}/metadata.db"}
        with gateway(files, {**_login("PLAINTEXT:PLAINTEXT,SSL:SASL_SSL"), **places}) as server:
            yield server


@contextmanager
def _in_memory(files: Files) -> Generator[TwoListeners]:
    settings = _login("PLAINTEXT:PLAINTEXT,SSL:SASL_SSL")
    with gateway(files, {**settings, "wal.put.budget.per.second": "0"}) as server:
        yield server


@contextmanager
def _kafka(files: Files) -> Generator[TwoListeners]:
    names = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SASL_SSL"
    with kafka(files, _login(names)) as server:
        yield server


BROKERS: Final = {"tidegate": _on_a_store, "in memory": _in_memory, "kafka": _kafka}


def _login(protocols: str) -> dict[str, str]:
    prefix = "listener.name.ssl"
    return {
        "listener.security.protocol.map": protocols,
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f'{MODULE} required user_alice="{PASSWORD}";',
    }


def _growth(
    name: str,
    opened: Callable[[Files], AbstractContextManager[TwoListeners]],
    files: Files,
    seconds: int,
    rate: int,
) -> float:
    """Return the 99th percentile beside strangers, divided by that without strangers."""
    with opened(files) as server:
        login = {
            **files.librdkafka(),
            "bootstrap.servers": server.tls,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "linger.ms": "0",
        }
        port = int(server.tls.rpartition(":")[2])
        found = _measured(Producer(login), port, files, seconds, rate)
    cuts = {phase: quantiles(values, n=100) for phase, values in found.items()}
    for phase, each in cuts.items():
        count = len(found[phase])
        print(f"{name:9}  {phase:7}  p50 {each[49]:6.2f} ms  p99 {each[98]:6.2f} ms  of {count}")
    growth = cuts["flooded"][98] / cuts["alone"][98]
    print(f"{name:9}  p99 beside strangers: {growth:.2f} of that alone", flush=True)
    return growth


def _measured(
    producer: Producer, port: int, files: Files, seconds: int, rate: int
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    latencies(producer, "flood", 3)  # warm
    for _ in range(ROUNDS):
        found["alone"] += latencies(producer, "flood", seconds)
        with flooding(port, files, rate):
            time.sleep(1)
            found["flooded"] += latencies(producer, "flood", seconds)
    return found
