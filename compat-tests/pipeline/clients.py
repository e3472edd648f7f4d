"""Processes that write and read a topic of many partitions, and compare."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from pipeline.records import CODECS, Expected, Records, codec_of

PATIENCE_SECONDS = 120.0


def write(bootstrap: str, topic: str, partitions: Sequence[int], first: int, last: int) -> None:
    """Write offsets [first, last) of some partitions, in turns."""
    records = Records()
    errors: list[str] = []

    def done(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(str(error))

    [codec] = {codec_of(partition) for partition in partitions}
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 65536,
        }
    )
    for offset in range(first, last):
        for partition in partitions:
            it = records.of(partition, offset)
            while True:
                try:
                    producer.produce(
                        topic,
                        it.value,
                        it.key,
                        partition,
                        on_delivery=done,
                        timestamp=it.timestamp_ms,
                        headers=it.headers,
                    )
                    break
                except BufferError:
                    producer.poll(0.5)
        producer.poll(0)
    if producer.flush(PATIENCE_SECONDS) or errors:
        raise SystemExit(f"not written: {errors[:3]}")


def read(bootstrap: str, topic: str, partitions: Sequence[int], last: int) -> int:
    """Read from offset 0 to last and compare each record; return the bytes of values."""
    records = Records()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 8 << 20,
            "queued.max.messages.kbytes": 65536,
        }
    )
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    following = dict.fromkeys(partitions, 0)
    missing, size_bytes = last * len(partitions), 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while missing:
        for message in consumer.consume(10_000, 1.0):
            size_bytes += _compare(records, message, following)
            missing -= 1
            deadline = time.monotonic() + PATIENCE_SECONDS
        if time.monotonic() > deadline:
            raise SystemExit(f"stuck; {missing} records are missing: next are {following}")
    for partition in partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
        if (low, high) != (0, last):
            raise SystemExit(f"partition {partition} holds {low} to {high}, not 0 to {last}")
    consumer.close()
    return size_bytes


def _compare(records: Records, message: Message, following: dict[int, int]) -> int:
    if message.error():
        raise SystemExit(f"an error instead of a record: {message.error()}")
    partition, offset = int(message.partition() or 0), int(message.offset() or 0)
    if offset != following[partition]:
        raise SystemExit(f"partition {partition}: {offset} after {following[partition] - 1}")
    following[partition] += 1
    found = Expected(
        message.key(), message.value() or b"", int(message.timestamp()[1]), message.headers()
    )
    if found != records.of(partition, offset):
        raise SystemExit(f"partition {partition}, offset {offset} is not what was written")
    return len(found.value or b"")


class Many:
    """One process for each codec's partitions."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._base = [sys.executable, __file__, bootstrap, topic, str(partitions)]

    def write(self, first: int, last: int) -> None:
        """Write offsets [first, last) of all partitions."""
        self._run("write", first, last, range(len(CODECS)))

    def read(self, last: int, *, at_once: int = 2) -> int:
        """Read everything and compare; return bytes."""
        return sum(self._run("read", 0, last, range(at_once), at_once))

    def _run(self, what: str, first: int, last: int, shares: range, of: int = 0) -> list[int]:
        processes = [
            subprocess.Popen(
                [*self._base, what, str(first), str(last), str(share), str(of or len(CODECS))],
                stdout=subprocess.PIPE,
                text=True,
            )
            for share in shares
        ]
        answers = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            raise RuntimeError(f"could not {what} offsets {first} to {last}")
        return [json.loads(answer)["bytes"] for answer in answers]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the process of one share of the partitions."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic"):
        parser.add_argument(name)
    parser.add_argument("partitions", type=int)
    parser.add_argument("what", choices=("write", "read"))
    for name in ("first", "last", "share", "of"):
        parser.add_argument(name, type=int)
    asked: Any = parser.parse_args(arguments)
    mine = [each for each in range(asked.partitions) if each % asked.of == asked.share]
    size_bytes = 0
    if asked.what == "write":
        write(asked.bootstrap, asked.topic, mine, asked.first, asked.last)
    else:
        size_bytes = read(asked.bootstrap, asked.topic, mine, asked.last)
    print(json.dumps({"bytes": size_bytes}))


if __name__ == "__main__":
    main()
