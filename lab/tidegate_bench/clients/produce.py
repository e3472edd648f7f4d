"""Producers that send as fast as the broker takes it, or at a given pace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from .spec import Produce, Told

ANY: Final = -1  # the client's choice
_WINDOW_BYTES: Final = 64 << 20  # queued in all producers together
_BATCHES_AHEAD: Final = 2  # of each producer, at least
_FLUSH_SECONDS: Final = 60.0
_AROUND: Final = 1.02


@dataclass(slots=True)
class _Fates:
    """Counts purged records, and raises other errors; librdkafka reports only failed records."""

    given_up: int = 0

    def __call__(self, error: Any, message: object) -> None:
        if error is not None and error.code() == KafkaError._PURGE_QUEUE:
            self.given_up += 1
        elif error is not None:
            raise KafkaException(error)


def produce(spec: Produce, wait_for_go: Callable[[], None]) -> Told:
    """Connect, wait, send, and wait for acknowledgements; only acknowledged records count.

    Raises:
      KafkaException: a record was refused, or not acknowledged in time.
    """
    fates = _Fates()
    producers = [Producer(_settings(spec, fates)) for _ in range(spec.producers)]
    messages = _messages(spec)
    for number, producer in enumerate(producers):  # to connect, get an id and Metadata
        _ = producer.produce_batch(spec.topic, messages[:1], number % spec.partitions)
    _flush(producers)
    wait_for_go()
    started = time.perf_counter()
    sent = _send(spec, producers, messages, started)
    _end(producers, started + spec.max_seconds)
    return {
        "payload_bytes": sent - fates.given_up * spec.record_bytes,
        "seconds": time.perf_counter() - started,
    }


def _settings(spec: Produce, fates: _Fates) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": spec.bootstrap,
        "enable.idempotence": spec.idempotent,
        "acks": "all",
        "log_level": 4,
        "message.timeout.ms": int(_FLUSH_SECONDS * 1000),
        "delivery.report.only.error": True,
        "on_delivery": fates,
        "compression.type": spec.codec or "none",
    }
    if spec.own_batching:
        return settings
    # Room for the fields around the values, so that one send is one batch.
    size = int(spec.batch_bytes * _AROUND) + 200
    return settings | {"batch.size": size, "message.max.bytes": max(1_000_000, size)}


def _messages(spec: Produce) -> list[dict[str, Any]]:
    """Return the values of a batch.

    Without a codec they are random bytes.  With a codec they are hexadecimal digits, which it
    compresses to half their size.
    """
    count = max(1, spec.batch_bytes // spec.record_bytes)
    kinds = min(count, 64) if not spec.codec else count
    pool = [_value(spec) for _ in range(kinds)]
    return [{"value": pool[number % len(pool)]} for number in range(count)]


def _value(spec: Produce) -> bytes:
    if not spec.codec:
        return os.urandom(spec.record_bytes)
    return os.urandom(spec.record_bytes).hex().encode()[: spec.record_bytes]


def _send(
    spec: Produce, producers: list[Producer], messages: list[dict[str, Any]], started: float
) -> int:
    chunk = len(messages)
    window = max(_WINDOW_BYTES // spec.record_bytes // spec.producers, _BATCHES_AHEAD * chunk)
    window = min(window, 50_000)
    sent, turn = 0, 0
    while sent < spec.max_bytes and time.perf_counter() - started < spec.max_seconds:
        _keep_pace(spec, sent, started)
        producer = producers[turn % len(producers)]
        partition = ANY if spec.own_batching else turn % spec.partitions
        turn += 1
        while len(producer) + chunk > window:
            producer.poll(0.005)
        producer.produce_batch(spec.topic, messages, partition)
        producer.poll(0)
        sent += chunk * spec.record_bytes
    return sent


def _keep_pace(spec: Produce, sent: int, started: float) -> None:
    if spec.bytes_per_second:
        due = started + sent / spec.bytes_per_second
        time.sleep(max(0.0, due - time.perf_counter()))


def _end(producers: list[Producer], deadline: float) -> None:
    """Wait for acknowledgements; at the deadline drop the records that were not sent yet."""
    for producer in producers:
        _ = producer.flush(max(0.0, deadline - time.perf_counter()))
    for producer in producers:
        producer.purge(in_queue=True, in_flight=False)
    _flush(producers)


def _flush(producers: list[Producer]) -> None:
    for producer in producers:
        if producer.flush(_FLUSH_SECONDS):
            raise TimeoutError("records were not acknowledged in time")
