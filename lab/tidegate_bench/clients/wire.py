"""A bare client: a blocking socket and our own codec, for requests that no client library sends."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any, Final, Self

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages import api_versions, fetch, metadata, produce
from tidegate_protocol.records import Record, build_batch

from ..errors import BenchError

SECONDS: Final = 60.0


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
