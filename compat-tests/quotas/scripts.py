"""Clients at full speed, each under a quota of its own; each returns a rate per second."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import create_topics as ct

PRODUCED: Final = "produced"
FETCHED: Final = "fetched"
VALUE: Final = bytes(range(250)) * 40
ELSEWHERE: Final = "127.0.0.2"
"""The address that connections of `connect` come from."""


def fill(bootstrap: str, size_bytes: int) -> None:
    """Write `size_bytes` of records to FETCHED, under no quota."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "filling"})
    for _ in range(size_bytes // len(VALUE)):
        while True:
            try:
                producer.produce(FETCHED, VALUE, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def produce(bootstrap: str, seconds: float) -> float:
    """Return the bytes of values that were acknowledged."""
    delivered = 0

    def on_delivery(error: Any, message: Any) -> None:
        nonlocal delivered
        if error is None:
            delivered += len(VALUE)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "producing",
            "linger.ms": 5,
            "batch.size": 100_000,
            "queue.buffering.max.kbytes": 4_096,
        }
    )
    end = monotonic() + seconds
    while monotonic() < end:
        try:
            producer.produce(PRODUCED, VALUE, partition=0, on_delivery=on_delivery)
            producer.poll(0)
        except BufferError:
            producer.poll(0.05)
    rate = delivered / seconds
    producer.purge()
    return rate


def fetch(bootstrap: str, seconds: float) -> float:
    """Return the bytes of values that were fetched."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "fetching",
            "group.id": "g",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1_000_000,
        }
    )
    consumer.assign([TopicPartition(FETCHED, 0, 0)])
    fetched, end = 0, monotonic() + seconds
    while monotonic() < end:
        for message in consumer.consume(500, 0.1):
            assert message.error() is None, message.error()
            fetched += len(message.value() or b"")
    consumer.close()
    return fetched / seconds


class Wire:
    """A connection that sends requests as they are."""

    def __init__(self, bootstrap: str, client_id: str, source: str = "127.0.0.1") -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), 30, (source, 0))
        self._socket.settimeout(120)
        self._client_id = client_id
        self._numbers = count(1)

    def call(self, key: ApiKey, version: int, messages: Any, request: Any) -> Any:
        """Return the answer; None if the connection was closed."""
        head = encode_request_header(key, version, next(self._numbers), client_id=self._client_id)
        self._socket.sendall(frame(head + messages.encode_request(request, version)))
        length = self._exactly(4)
        body = self._exactly(int.from_bytes(length, "big")) if length else b""
        if not body:
            return None
        _, position = decode_response_header(memoryview(body), key, version)
        return messages.decode_response(memoryview(body)[position:], version)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self._socket.recv(size - len(data))
            except ConnectionResetError:
                return b""
            if not part:
                return b""
            data += part
        return data

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def create(bootstrap: str, seconds: float) -> float:
    """Return the topics of one partition that were created."""
    wire = Wire(bootstrap, "creating")
    created, end = 0, monotonic() + seconds
    while monotonic() < end:
        topic = ct.CreatableTopic(f"created-{created}", 1, 1)
        answer = wire.call(ApiKey.CREATE_TOPICS, 7, ct, ct.CreateTopicsRequest([topic], 30_000))
        code = answer.topics[0].error_code
        assert code in (0, 89), code
        created += not code
    wire.close()
    return created / seconds


def ask(bootstrap: str, seconds: float) -> float:
    """Return the requests that were answered."""
    wire = Wire(bootstrap, "asking")
    asked, end = 0, monotonic() + seconds
    while monotonic() < end:
        assert wire.call(ApiKey.API_VERSIONS, 2, av, None) is not None
        asked += 1
    wire.close()
    return asked / seconds


def connect(bootstrap: str, seconds: float) -> float:
    """Return the connections that were served."""
    served, end = 0, monotonic() + seconds
    while monotonic() < end:
        wire = Wire(bootstrap, "connecting", ELSEWHERE)
        with suppress(BrokenPipeError, ConnectionResetError):
            served += wire.call(ApiKey.API_VERSIONS, 2, av, None) is not None
        wire.close()
    return served / seconds


SCRIPTS: Final[dict[str, Callable[[str, float], float]]] = {
    "producer_byte_rate": produce,
    "consumer_byte_rate": fetch,
    "controller_mutation_rate": create,
    "connection_creation_rate": connect,
    "request_percentage": ask,
}
