"""Produce requests as nearly all clients send them, read and answered without message objects.

Produce costs a gateway most of its CPU, and nearly every request is alike: a flexible version (9 to
13), nothing tagged, names of fewer than 127 bytes, fewer than 127 topics and partitions.  Such a
request is read here in one pass.  For any other request read_plain() returns None; the generated
codec then reads the request, and refuses it if necessary.  encode_plain() writes the same bytes as
the generated codec.

Layout: https://kafka.apache.org/protocol (Produce), KIP-482, KIP-516 (topic ids from version 13).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

FIRST_VERSION = 9
LAST_VERSION = 13
TOPIC_IDS_FROM = 13

_ID_BYTES = 16
_MAX_SHORT = 0x7F
"""A count or length is written plus one, as a varint that is one byte up to this."""

_HEADER = Struct(">hhih")
# Tags of the header, length of the transactional id (0: none), which follows.
_TAGS = Struct(">BB")
# Acks, timeout, count of topics.
_START = Struct(">hiB")
_INT32 = Struct(">i")
# Partition, error 0, base offset, append time, log start; no record errors, no text, no tags.
_ANSWER = Struct(">ihqqqBBB")
# Frame length, correlation id, tags, count of topics.
_REPLY_START = Struct(">iiBB")
_NOT_THROTTLED = bytes(5)
# After the last records: no tags of the partition, the topic, the request.
_TAILS = bytes(3)
# After the numbers: no record errors, no text, no tags of partition and topic; not throttled.
_LONE_TAIL = b"\1\0\0\0" + _NOT_THROTTLED

TopicKey: TypeAlias = "str | bytes"
"""A topic's name, or from version 13 on its id."""
Part: TypeAlias = tuple[int, int, int]
"""Partition, the first byte of its records in the frame, and the first byte after them."""
Answer: TypeAlias = tuple[int, int, int, int]
"""Partition, base offset, append time in ms or -1, log start offset."""


class PlainProduce(NamedTuple):
    """A request; topics and partitions in its order."""

    version: int
    correlation_id: int
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[Part]]]
    transactional_id: str | None = None


def read_plain(frame: memoryview) -> PlainProduce | None:
    """Read a frame, without its length; None if it is not plain, or is damaged."""
    try:
        return _read(frame)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _read(frame: memoryview) -> PlainProduce | None:
    api_key, version, correlation_id, client_id_bytes = _HEADER.unpack_from(frame)
    if api_key or not FIRST_VERSION <= version <= LAST_VERSION or client_id_bytes < -1:
        return None
    position = _HEADER.size + max(client_id_bytes, 0)
    str(frame[_HEADER.size : position], "utf-8")  # an id that is no text is refused elsewhere
    tags, length = _TAGS.unpack_from(frame, position)
    position += _TAGS.size
    transactional_id: str | None = None
    if length:
        if not 1 < length <= _MAX_SHORT:
            return None
        start = position
        position += length - 1
        transactional_id = str(frame[start:position], "utf-8")
    acks, timeout_ms, count = _START.unpack_from(frame, position)
    if tags or not 1 < count <= _MAX_SHORT:
        return None
    position += _START.size
    topics: list[tuple[TopicKey, list[Part]]] = []
    for _ in range(count - 1):
        start = position
        if version >= TOPIC_IDS_FROM:
            position += _ID_BYTES
            key: TopicKey = bytes(frame[start:position])
        else:
            length = frame[start]
            if not 1 < length <= _MAX_SHORT:
                return None
            position += length
            key = str(frame[start + 1 : position], "utf-8")
        parts: list[Part] = []
        position = _read_parts(frame, position, parts)
        if not parts:
            return None
        topics.append((key, parts))
    if frame[position] or position + 1 != len(frame):
        return None
    return PlainProduce(version, correlation_id, acks, timeout_ms, topics, transactional_id)


def _read_parts(frame: memoryview, position: int, parts: list[Part]) -> int:
    """Read a topic's partitions into parts, and its tags; leave parts empty if they are not plain.

    Returns the position after them.
    """
    count = frame[position]
    position += 1
    if not 1 < count <= _MAX_SHORT:
        return position
    for _ in range(count - 1):
        (index,) = _INT32.unpack_from(frame, position)
        start = position + 5
        length = frame[position + 4]
        shift = 7
        while length >> shift and shift <= 28:  # the byte before says that another byte follows
            length += (frame[start] - 1) << shift
            start += 1
            shift += 7
        position = start + length - 1
        # After the records comes the partition's own tag count; null records are not plain.
        if length < 2 or shift > 28 or frame[position]:
            parts.clear()
            return position
        parts.append((index, start, position))
        position += 1
    if frame[position]:
        parts.clear()
    return position + 1


def prefix_end(frame: memoryview, start: int, end: int) -> int | None:
    """Return where the length of the records frame[start:end] begins, for read_records().

    None if the frame holds other records, too, or their length takes more bytes than it needs.
    """
    found = start - ((end - start + 1).bit_length() + 6) // 7
    return found if read_records(frame, found) == (start, end) else None


def read_records(frame: memoryview, position: int) -> tuple[int, int] | None:
    """Read a frame of one partition that is known to be plain up to the length of its records.

    Returns where the records lie, or None if later bytes are not plain.
    """
    try:
        length = frame[position]
        start = position + 1
        shift = 7
        while length >> shift and shift <= 28:
            length += (frame[start] - 1) << shift
            start += 1
            shift += 7
    except IndexError:
        return None
    end = start + length - 1
    if length < 2 or end + len(_TAILS) != len(frame) or bytes(frame[end:]) != _TAILS:
        return None
    return start, end


class LoneReply:
    """The reply to all requests with one prefix; encode() adds the four numbers that differ."""

    __slots__ = ("_index", "_size", "_struct", "_topic")

    def __init__(self, key: TopicKey, index: int) -> None:
        self._topic = b"".join((b"\0\2", _encoded_key(key), b"\2"))
        self._struct = Struct(f">ii{len(self._topic)}sihqqq{len(_LONE_TAIL)}s")
        self._size = self._struct.size - 4
        self._index = index

    def encode(
        self, correlation_id: int, base_offset: int, append_time_ms: int, log_start: int
    ) -> bytes:
        """Write a whole frame, as encode_plain() would."""
        return self._struct.pack(
            self._size,
            correlation_id,
            self._topic,
            self._index,
            0,
            base_offset,
            append_time_ms,
            log_start,
            _LONE_TAIL,
        )


def encode_plain(
    version: int, correlation_id: int, topics: Sequence[tuple[TopicKey, Sequence[Answer]]]
) -> bytes:
    """Write a reply's whole frame, length included; counts and names as read_plain() takes them."""
    pieces: list[bytes] = [b""]
    for key, answers in topics:
        pieces.append(_encoded_key(key))
        pieces.append(bytes((len(answers) + 1,)))
        for index, base_offset, append_time_ms, log_start in answers:
            pieces.append(_ANSWER.pack(index, 0, base_offset, append_time_ms, log_start, 1, 0, 0))
        pieces.append(b"\0")
    pieces.append(_NOT_THROTTLED)
    size = sum(map(len, pieces)) + _REPLY_START.size - 4
    pieces[0] = _REPLY_START.pack(size, correlation_id, 0, len(topics) + 1)
    return b"".join(pieces)


def _encoded_key(key: TopicKey) -> bytes:
    if isinstance(key, bytes):
        return key
    name = key.encode()
    return bytes((len(name) + 1,)) + name
