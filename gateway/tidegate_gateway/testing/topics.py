"""Creates topics over a blocking socket, so that a test suite needs no Kafka client."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.frames import LENGTH_BYTES, frame
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    decode_response,
    encode_request,
)

VERSION: Final = 7
SECONDS: Final = 30.0
# -1: the gateway uses num.partitions and default.replication.factor (KIP-464).
BROKERS_CHOICE: Final = -1


class TopicRefused(Exception):
    """A topic was not created; the text says why."""


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int = BROKERS_CHOICE,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic.

    Args:
      bootstrap: "host:port" of a listener without TLS and SASL; of several addresses, the first is
        used.

    Raises:
      TopicRefused: the gateway does not create the topic, or not over this listener.
    """
    given = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
    topic = CreatableTopic(name, partitions, BROKERS_CHOICE, configs=given)
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    try:
        result = _ask(host.strip("[]"), int(port), CreateTopicsRequest([topic]))
    except OSError as error:
        raise TopicRefused(
            f"topic {name}: {bootstrap} does not answer: {error}; this needs a listener without TLS"
            " and SASL"
        ) from error
    if result.error_code:
        why = f"{ErrorCode(result.error_code).name}: {result.error_message}"
        raise TopicRefused(f"topic {name}: {why}")


def _ask(host: str, port: int, request: CreateTopicsRequest) -> CreatableTopicResult:
    key = ApiKey.CREATE_TOPICS
    head = encode_request_header(key, VERSION, 1, client_id="tidegate-testing")
    with socket.create_connection((host, port), timeout=SECONDS) as connection:
        connection.sendall(frame(head + encode_request(request, VERSION)))
        length = int.from_bytes(_exactly(connection, LENGTH_BYTES), "big")
        answer = memoryview(_exactly(connection, length))
    _, position = decode_response_header(answer, key, VERSION)
    return decode_response(answer[position:], VERSION).topics[0]


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError("it closed the connection")
        received += part
    return received
