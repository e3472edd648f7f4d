"""Targets: the generated codec, headers and frames, the consumer protocol.

A decoded value must encode, and the bytes must decode to the same value.  Only RemoteProtocolError
may refuse an input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from random import Random
from typing import Any

from tidegate_protocol import consumer_protocol as protocol
from tidegate_protocol.apis import APIS
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import frame, split_frames
from tidegate_protocol.headers import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_header,
)
from tidegate_protocol.messages import consumer_protocol_assignment as assignments
from tidegate_protocol.messages import consumer_protocol_subscription as subscriptions

from .shapes import joined, message

MESSAGES_PER_VERSION = 3
MAX_FRAME_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Codec:
    """Requests or responses of one API."""

    cls: type
    min_version: int
    max_version: int
    decode: Callable[[memoryview, int], Any]
    encode: Callable[[Any, int], Any]


def all_codecs() -> list[Codec]:
    """Return the codecs of all APIs, two for each, in order of their keys."""
    codecs: list[Codec] = []
    for facts in sorted(APIS.values()):
        module = import_module(f"tidegate_protocol.messages.{snake(facts.name)}")
        for kind in ("Request", "Response"):
            codecs.append(
                Codec(
                    getattr(module, facts.name + kind),
                    facts.min_version,
                    facts.max_version,
                    getattr(module, f"decode_{kind.lower()}"),
                    getattr(module, f"encode_{kind.lower()}"),
                )
            )
    return codecs


def snake(name: str) -> str:
    """Return the module name of an API, such as create_topics for CreateTopics."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


class CodecTarget:
    """Input: index of the codec 1 byte, version above the lowest 1 byte, message."""

    head_bytes = 2
    fixed_bytes = 64 * 1024
    bytes_per_byte = 256
    seconds_per_kib = 0.02

    def __init__(self) -> None:
        self._codecs = all_codecs()

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        found: dict[bytes, None] = {}
        for number, codec in enumerate(self._codecs):
            for version in range(codec.min_version, codec.max_version + 1):
                head = bytes((number, version - codec.min_version))
                for _ in range(MESSAGES_PER_VERSION):
                    made = message(rng, codec.cls, version, codec.encode)
                    if made is not None:
                        found[head + made] = None
        return list(found)

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target.  Now and then changes the version."""
        if data and rng.random() < 0.05:
            data[1:2] = bytes((int(rng.random() * 16),))

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        if len(data) < self.head_bytes:
            return
        codec = self._codecs[data[0] % len(self._codecs)]
        version = codec.min_version + data[1] % (codec.max_version - codec.min_version + 1)
        try:
            value = codec.decode(memoryview(data)[2:], version)
        except RemoteProtocolError:
            return
        encoded = joined(codec.encode(value, version))
        again = codec.decode(memoryview(encoded), version)
        assert again == value, f"{codec.cls.__name__} v{version}: {value} became {again}"
        assert joined(codec.encode(again, version)) == encoded


class HeadersTarget:
    """Input: API key 2 bytes, version 2 bytes of the responses; then frames without further
    structure.
    """

    head_bytes = 0
    fixed_bytes = 64 * 1024
    bytes_per_byte = 64
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        found: list[bytes] = []
        for facts in APIS.values():
            for version in {facts.min_version, facts.max_version}:
                frames = [
                    frame(
                        encode_request_header(
                            facts.key, version, rng.getrandbits(31), client_id=name
                        )
                    )
                    for name in (None, "", "a client", "é" * 70)
                ]
                chosen = facts.key.to_bytes(2, "big") + version.to_bytes(2, "big")
                answer = response_header(rng.getrandbits(31), facts.key, version)
                found.append(chosen + b"".join(frames) + frame(answer))
        found += [b"\0\0\0\0GET / HTTP/1.1", b"\0\0\0\0\x16\x03\x01\x02\0"]
        return found

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        key = int.from_bytes(data[:2], "big", signed=True)
        version = int.from_bytes(data[2:4], "big", signed=True)
        stream = memoryview(data)[4:]
        _round_trip_request(stream[4:])
        _read_response(stream[4:], key, version)
        for start, end in _frames(stream):
            _round_trip_request(stream[start:end])
            _read_response(stream[start:end], key, version)


def _frames(stream: memoryview) -> Sequence[tuple[int, int]]:
    """Split all bytes at once and in two pieces: the frames must be the same."""
    try:
        frames = split_frames(stream, max_frame_bytes=MAX_FRAME_BYTES)
    except RemoteProtocolError:
        return ()
    first = split_frames(stream[: len(stream) // 2], max_frame_bytes=MAX_FRAME_BYTES)
    rest = split_frames(stream, first.rest_position, max_frame_bytes=MAX_FRAME_BYTES)
    assert first.whole + rest.whole == frames.whole
    assert rest[1:] == frames[1:]
    assert frames.missing_bytes > len(stream) - frames.rest_position
    return frames.whole


def _round_trip_request(data: memoryview) -> None:
    try:
        header = decode_request_header(data)
    except RemoteProtocolError:
        return
    assert 10 <= header.body_position <= len(data)
    if header.api_key not in APIS:
        return
    encoded = encode_request_header(
        header.api_key, header.api_version, header.correlation_id, client_id=header.client_id
    )
    again = decode_request_header(memoryview(encoded))
    assert again[:4] == header[:4], f"{header} became {again}"


def _read_response(data: memoryview, key: int, version: int) -> None:
    try:
        correlation_id, position = decode_response_header(data, key, version)
    except RemoteProtocolError:
        return
    assert position >= 4
    written = response_header(correlation_id, key, version)
    assert decode_response_header(memoryview(written), key, version)[0] == correlation_id


class ConsumerProtocolTarget:
    """Input: 0 a subscription or 1 an assignment, 1 byte; then the message, its version first."""

    head_bytes = 1
    fixed_bytes = 64 * 1024
    bytes_per_byte = 256
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        found: list[bytes] = []
        for version in range(protocol.LATEST_VERSION + 1):
            for kind, module, cls in (
                (b"\0", subscriptions, subscriptions.ConsumerProtocolSubscription),
                (b"\1", assignments, assignments.ConsumerProtocolAssignment),
            ):
                for _ in range(20):
                    made = message(rng, cls, version, module.encode)
                    if made is not None:
                        found.append(kind + version.to_bytes(2, "big") + made)
        return found

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        if data[:1] == b"\1":
            _round_trip(data[1:], protocol.decode_assignment, protocol.encode_assignment)
        else:
            _round_trip(data[1:], protocol.decode_subscription, protocol.encode_subscription)


def _round_trip(
    data: bytes, decode: Callable[[bytes], Any], encode: Callable[[Any, int], bytes]
) -> None:
    try:
        value = decode(data)
    except RemoteProtocolError:
        return
    version = min(int.from_bytes(data[:2], "big", signed=True), protocol.LATEST_VERSION)
    assert decode(encode(value, version)) == value
