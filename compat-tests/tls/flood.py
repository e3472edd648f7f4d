"""A good client's latency while strangers make TLS handshakes, and never log in.

python -m tls.flood [SECONDS] [HANDSHAKES A SECOND]      in compat-tests/, on a quiet machine

One client of librdkafka writes a record at a time to a listener with SASL_SSL, and waits for its
acknowledgement: first alone, then beside the strangers, in turns.  The aim: its 99th percentile at
most doubles.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import quantiles
from typing import Final

from confluent_kafka import Producer

from .brokers import gateway
from .certificates import Files, make_files

ROUNDS: Final = 3
PATIENCE_SECONDS: Final = 60.0
PASSWORD: Final = "secret"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def strangers(port: int, ca: str, rate: int, end: Event) -> None:
    """Make handshakes at a rate until the event; print how many there were."""
    os.nice(19)  # elsewhere they have a machine of their own
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
    """Have strangers in a process of their own meanwhile."""
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


def main(arguments: list[str]) -> int:
    """Print both percentiles of each phase; return 1 if the 99th more than doubles."""
    seconds, rate = (int(each) for each in [*arguments, *("10", "500")[len(arguments) :]])
    prefix = "listener.name.ssl"
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(Path(folder))
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SASL_SSL",
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
            f"{prefix}.plain.sasl.jaas.config": f'{MODULE} required user_alice="{PASSWORD}";',
            "wal.put.budget.per.second": "0",
        }
        with gateway(files, settings) as server:
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
    for name, values in found.items():
        cuts = quantiles(values, n=100)
        print(f"{name:8}  p50 {cuts[49]:6.2f} ms  p99 {cuts[98]:6.2f} ms  of {len(values)}")
    alone, beside = (quantiles(found[name], n=100)[98] for name in ("alone", "flooded"))
    print(f"p99 beside strangers: {beside / alone:.2f} of that alone")
    return int(beside > 2 * alone)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
