"""python compat-tests/zones/light_reader.py: many consumers of a zone, which only count.

Each consumer has its own connection to each gateway that leads partitions for its zone, and reads
all partitions from their start.  Like a Java consumer, it asks for up to 1 MiB of a partition and
--fetch-bytes of all in one Fetch, partitions in turn.  It reads only the headers of batches, so
that it sees every offset.  150 clients that decode records would need more CPU than this machine
has.  The program prints JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_response_header, encode_request_header
from tidegate_protocol.messages import fetch, metadata

SECONDS = 120.0
PARTITION_BYTES = 1 << 20
WAIT_MS = 500
_FETCH_VERSION, _METADATA_VERSION = 11, 9
# A batch begins with base offset and length.  The last offset delta follows at _DELTA_AT.
_BATCH = struct.Struct(">qi")
_DELTA_AT, _LENGTH_BYTES = 23, 12


class Failed(Exception):
    """A gateway sent an answer with which a consumer cannot continue."""


class Connection:
    """One connection, and a buffer that all its answers share."""

    def __init__(self, address: tuple[str, int], client_id: str) -> None:
        self._socket = socket.create_connection(address, timeout=SECONDS)
        self._client_id = client_id
        self._buffer = bytearray(1 << 16)

    def call(self, api_key: int, version: int, body: bytes | bytearray) -> memoryview:
        """Return the body of the answer; it is valid until the next call."""
        head = encode_request_header(api_key, version, 1, client_id=self._client_id)
        self._socket.sendall(frame(head + body))
        answer = self._exactly(int.from_bytes(self._exactly(4), "big"))
        _, position = decode_response_header(answer, api_key, version)
        return answer[position:]

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def _exactly(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        left = view
        while left:
            count = self._socket.recv_into(left)
            if not count:
                raise Failed("the gateway closed a connection")
            left = left[count:]
        return view


class Reader:
    """One consumer at one gateway, with the partitions that it reads there."""

    def __init__(self, connection: Connection, topic: str, fetch_bytes: int) -> None:
        self._connection = connection
        self._topic = topic
        self._fetch_bytes = fetch_bytes
        self.bytes = 0

    def read(self, ends: dict[int, int]) -> None:
        """Read each partition to its end."""
        offsets = dict.fromkeys(ends, 0)
        order = list(ends)
        while order:
            answer = self._fetch([(number, offsets[number]) for number in order])
            for part in answer:
                if part.error_code:
                    raise Failed(f"partition {part.partition_index}: error {part.error_code}")
                if part.records:
                    number = part.partition_index
                    offsets[number] = self._count(part.records, offsets[number])
                    order.remove(number)
                    if offsets[number] < ends[number]:
                        order.append(number)

    def _fetch(self, places: list[tuple[int, int]]) -> list[Any]:
        wanted = [
            fetch.FetchPartition(number, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES)
            for number, offset in places
        ]
        request = fetch.FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic=self._topic, partitions=wanted)],
        )
        body = fetch.encode_request(request, _FETCH_VERSION)
        answer = fetch.decode_response(
            self._connection.call(ApiKey.FETCH, _FETCH_VERSION, body), _FETCH_VERSION
        )
        if answer.error_code:
            raise Failed(f"error {answer.error_code}")
        return [part for topic in answer.responses for part in topic.partitions]

    def _count(self, records: memoryview, expected: int) -> int:
        """Return the offset after the last whole batch.  Batches must follow without a gap."""
        at = 0
        while at + _DELTA_AT + 4 <= len(records):
            base, length = _BATCH.unpack_from(records, at)
            end = at + _LENGTH_BYTES + length
            if end > len(records):
                break
            if base != expected:
                raise Failed(f"offset {base} instead of {expected}")
            expected = (
                base + int.from_bytes(records[at + _DELTA_AT : at + _DELTA_AT + 4], "big") + 1
            )
            at = end
        self.bytes += at
        return expected


def leaders(bootstrap: str, client_id: str, topic: str) -> dict[tuple[str, int], list[int]]:
    """Return partitions by their leading gateway, from the Metadata that this client id gets."""
    host, _, port = bootstrap.rpartition(":")
    connection = Connection((host, int(port)), client_id)
    asked = metadata.MetadataRequestTopic(name=topic)
    request = metadata.MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
    body = metadata.encode_request(request, _METADATA_VERSION)
    answer: Any = metadata.decode_response(
        connection.call(ApiKey.METADATA, _METADATA_VERSION, body), _METADATA_VERSION
    )
    connection.close()
    places = {each.node_id: (each.host, each.port) for each in answer.brokers}
    found: dict[tuple[str, int], list[int]] = {}
    for each in answer.topics[0].partitions:
        found.setdefault(places[each.leader_id], []).append(each.partition_index)
    return found


def main() -> None:
    """Read with all readers, and print their counts."""
    parser = argparse.ArgumentParser(description="many consumers of one zone")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--zone", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--ends", required=True, help="JSON: the end of each partition")
    parser.add_argument("--consumers", type=int, required=True)
    parser.add_argument("--fetch-bytes", type=int, default=8 << 20)
    parser.add_argument("--within", type=float, default=2.0, help="seconds in which all begin")
    options = parser.parse_args()
    ends = {int(number): end for number, end in json.loads(options.ends).items()}
    readers: list[Reader] = []
    failures: list[str] = []

    def consume(number: int, rng: random.Random) -> None:
        client_id = f"fan-{number},zone={options.zone}"
        time.sleep(rng.random() * options.within)
        try:
            places = leaders(options.bootstrap, client_id, options.topic)
            parts: list[threading.Thread] = []
            for address, partitions in places.items():
                connection = Connection(address, client_id)
                reader = Reader(connection, options.topic, options.fetch_bytes)
                readers.append(reader)
                mine = {each: ends[each] for each in partitions}
                parts.append(threading.Thread(target=guarded, args=(reader, mine)))
                parts[-1].start()
            for each in parts:
                each.join()
        except (Failed, OSError) as error:
            failures.append(str(error))

    def guarded(reader: Reader, mine: dict[int, int]) -> None:
        try:
            reader.read(mine)
        except (Failed, OSError) as error:
            failures.append(str(error))

    begun = time.perf_counter()
    threads = [
        threading.Thread(target=consume, args=(number, random.Random(number)))
        for number in range(options.consumers)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    seconds = time.perf_counter() - begun
    read = sum(each.bytes for each in readers)
    print(json.dumps({"bytes": read, "seconds": seconds, "failures": failures}), flush=True)


if __name__ == "__main__":
    main()
