"""Consumers without a group, many in a process, that discard their records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from .spec import Read, Told

_AT_ONCE: Final = 20_000
_PATIENCE_SECONDS: Final = 30.0


@dataclass(slots=True)
class _Reader:
    consumer: Consumer
    payload_bytes: int = 0
    ended_at: float = field(default=0.0)


def read(spec: Read, wait_for_go: Callable[[], None]) -> Told:
    """Connect, wait, read; the time is the slowest reader's.

    A reader from the start begins to fetch at the start signal, a reader at the tail as soon as it
    has its partitions.
    """
    readers = [_Reader(_consumer(spec)) for _ in range(spec.readers)]
    if not spec.from_start:
        for reader in readers:
            _assign(reader.consumer, spec)
    wait_for_go()
    started = time.perf_counter()
    if spec.from_start:
        for reader in readers:
            _assign(reader.consumer, spec)
    deadline = started + spec.max_seconds
    threads = [threading.Thread(target=_sink, args=(each, spec, deadline)) for each in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reader in readers:
        reader.consumer.close()
    return {
        "payload_bytes": sum(reader.payload_bytes for reader in readers),
        "seconds": max(reader.ended_at for reader in readers) - started,
    }


def _consumer(spec: Read) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": spec.bootstrap,
            "group.id": "bench-without-a-group",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": max(2048, 65_536 // spec.readers),
            # By default a reader whose queue was full for a moment fetches nothing for a second.
            "fetch.queue.backoff.ms": 10,
        }
    )


def _assign(consumer: Consumer, spec: Read) -> None:
    start = OFFSET_BEGINNING
    places: list[TopicPartition] = []
    for number in range(spec.partitions):
        place = TopicPartition(spec.topic, number, start)
        if not spec.from_start:
            _, place.offset = consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECONDS)
        places.append(place)
    consumer.assign(places)


def _sink(reader: _Reader, spec: Read, deadline: float) -> None:
    reader.ended_at = time.perf_counter()
    while reader.payload_bytes < spec.max_bytes and time.perf_counter() < deadline:
        for message in reader.consumer.consume(_AT_ONCE, timeout=0.1):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            reader.payload_bytes += len(message)
            reader.ended_at = time.perf_counter()
