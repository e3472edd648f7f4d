"""A bare client: a blocking socket and our own codec, for requests that no client library sends."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages import (
    api_versions,
    fetch,
    find_coordinator,
    init_producer_id,
    metadata,
    produce,
)
from tidegate_protocol.records import Record, build_batch

from ..errors import BenchError

SECONDS: Final = 60.0
TRANSACTION_TIMEOUT_MS: Final = 60_000
NOT_READY: Final = frozenset({14, 15, 16, 51})
"""Errors of a coordinator that is loading, elsewhere, or busy with the id."""


@dataclass(slots=True)
class Wire:
    """One connection."""

    socket: socket.socket

    @classmethod
    def connect(cls, bootstrap: str) -> Self:
        """Connect.

        Raises:
          OSError: no broker listens there.
        """
        host, _, port = bootstrap.rpartition(":")
        return cls(socket.create_connection((host, int(port)), timeout=SECONDS))

    def api_versions(self) -> None:
        """Ask for the API versions, as every client does first."""
        self._send(ApiKey.API_VERSIONS, 3, api_versions.encode_request(_who_we_are(), 3))
        _ = self._answer()

    def metadata(self, topic: str) -> None:
        """Ask for the leaders of a topic."""
        asked = metadata.MetadataRequestTopic(name=topic)
        request = metadata.MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
        self._send(ApiKey.METADATA, 9, metadata.encode_request(request, 9))
        _ = self._answer()

    def produce(self, topic: str, partitions: int, batch: bytes) -> None:
        """Write one batch to each partition, in one request, and wait until it is acknowledged.

        Raises:
          BenchError: a batch was refused.
        """
        data = [produce.PartitionProduceData(index, batch) for index in range(partitions)]
        topics = [produce.TopicProduceData(name=topic, partition_data=data)]
        request = produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
        self._send(ApiKey.PRODUCE, 9, produce.encode_request(request, 9))
        answer: Any = produce.decode_response(self._body(ApiKey.PRODUCE, 9), 9)
        for part in answer.responses[0].partition_responses:
            if part.error_code:
                raise BenchError(f"a batch was refused with error {part.error_code}")

    def init_producer(self, name: str | None) -> tuple[int, int]:
        """Take a producer id and epoch; name: the transactional id.

        Raises:
          BenchError: the broker gives none.
        """
        if name is not None:
            self._find_coordinator(name)
        request = init_producer_id.InitProducerIdRequest(name, TRANSACTION_TIMEOUT_MS)
        answer = self._until_ready(
            lambda: self._ask(ApiKey.INIT_PRODUCER_ID, 4, init_producer_id, request)
        )
        return int(answer.producer_id), int(answer.producer_epoch)

    def _find_coordinator(self, name: str) -> None:
        """Ask for the coordinator: Apache Kafka then creates `__transaction_state`."""
        request = find_coordinator.FindCoordinatorRequest(name, key_type=1)
        _ = self._until_ready(
            lambda: self._ask(ApiKey.FIND_COORDINATOR, 3, find_coordinator, request)
        )

    def _until_ready(self, ask: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + SECONDS
        while True:
            answer = ask()
            if not answer.error_code:
                return answer
            if answer.error_code not in NOT_READY or time.monotonic() > deadline:
                raise BenchError(f"the broker answers with error {answer.error_code}")
            time.sleep(0.1)

    def _ask(self, api_key: int, version: int, messages: Any, request: object) -> Any:
        self._send(api_key, version, messages.encode_request(request, version))
        return messages.decode_response(self._body(api_key, version), version)

    def wait_for_records(self, topic: str, wait_ms: int) -> None:
        """Open a fetch session on partition 0 that waits at its end; the answer is not read."""
        asked = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = fetch.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=0,
            topics=[fetch.FetchTopic(topic=topic, partitions=[asked])],
        )
        self._send(ApiKey.FETCH, 11, fetch.encode_request(request, 11))

    def close(self) -> None:
        """Close it."""
        self.socket.close()

    def _send(self, api_key: int, version: int, body: bytes | bytearray) -> None:
        head = encode_request_header(api_key, version, 1, client_id="bench")
        self.socket.sendall(frame(head + body))

    def _body(self, api_key: int, version: int) -> memoryview:
        answer = self._answer()
        _, position = decode_response_header(answer, api_key, version)
        return answer[position:]

    def _answer(self) -> memoryview:
        length = int.from_bytes(self._exactly(4), "big")
        return memoryview(self._exactly(length))

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view = memoryview(received)
        while view:
            count = self.socket.recv_into(view)
            if not count:
                raise BenchError("the broker closed a connection")
            view = view[count:]
        return received


def small_batch() -> bytes:
    """Return a batch with one record of 20 bytes."""
    return build_batch([Record(0, 1_700_000_000_000, None, os.urandom(20), ())])


def _who_we_are() -> api_versions.ApiVersionsRequest:
    return api_versions.ApiVersionsRequest(
        client_software_name="tidegate-bench", client_software_version="1"
    )
