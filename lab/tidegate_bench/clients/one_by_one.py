"""Latency of single records: acknowledged, or read back by a consumer at the tail."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from .spec import OneByOne, Told

_PATIENCE_SECONDS: Final = 30.0
_FIRST_RECORDS: Final = 20  # to warm up connections, the consumer's fetch and caches


def one_by_one(spec: OneByOne, wait_for_go: Callable[[], None]) -> Told:
    """Connect, wait, send records one after the other; return their latencies."""
    producer = Producer(
        {
            "bootstrap.servers": spec.bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "socket.nagle.disable": True,
        }
    )
    consumer = _at_the_tail(spec) if spec.read_back else None
    step = _ReadBack(spec, producer, consumer) if consumer else _Acknowledged(spec, producer)
    for _ in range(_FIRST_RECORDS):
        step()
    wait_for_go()
    started = time.perf_counter()
    latencies: list[float] = []
    while len(latencies) < spec.records and time.perf_counter() - started < spec.max_seconds:
        latencies.append(step())
        if spec.pause_seconds:
            time.sleep(spec.pause_seconds)
    seconds = time.perf_counter() - started
    if consumer:
        consumer.close()
    sent = len(latencies)
    return {
        "payload_bytes": sent * spec.record_bytes,
        "seconds": seconds,
        "records": sent,
        "latencies": latencies,
    }


class _Acknowledged:
    def __init__(self, spec: OneByOne, producer: Producer) -> None:
        self._spec = spec
        self._producer = producer
        self._value = os.urandom(spec.record_bytes)
        self._acknowledged_at = 0.0

    def __call__(self) -> float:
        self._acknowledged_at = 0.0
        started = time.perf_counter()
        self._producer.produce(self._spec.topic, self._value, partition=0, on_delivery=self._note)
        while not self._acknowledged_at:
            self._producer.poll(_PATIENCE_SECONDS)
        return self._acknowledged_at - started

    def _note(self, error: Any, message: object) -> None:
        if error is not None:
            raise KafkaException(error)
        self._acknowledged_at = time.perf_counter()


class _ReadBack:
    def __init__(self, spec: OneByOne, producer: Producer, consumer: Consumer) -> None:
        self._send = _Acknowledged(spec, producer)
        self._consumer = consumer

    def __call__(self) -> float:
        """Measure as EndToEndLatency does: acknowledged, then polled for."""
        started = time.perf_counter()
        self._send()
        message = self._consumer.poll(_PATIENCE_SECONDS)
        if message is None or message.error() is not None:
            raise TimeoutError("a record did not come back")
        return time.perf_counter() - started


def _at_the_tail(spec: OneByOne) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": spec.bootstrap,
            "group.id": "bench-without-a-group",
            "enable.auto.commit": False,
            "socket.nagle.disable": True,
        }
    )
    place = TopicPartition(spec.topic, 0)
    _, place.offset = consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECONDS)
    consumer.assign([place])
    return consumer
