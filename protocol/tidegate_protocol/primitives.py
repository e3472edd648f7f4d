"""The wire's small parts, for the rare paths of the generated codec and for hand-written code.

The generated code inlines the common cases (a varint of one byte, a run of fixed fields) and calls
this module for all others.  Readers take ``(data, position)`` and return ``(value, next
position)``.

A reader may return a position past the end: a slice of a memoryview is cut silently.  The next read
then raises, and the decode function of each message checks the last position.  So strings need no
bounds check of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from .errors import LocalProtocolError, RemoteProtocolError

Buffer = bytes | bytearray | memoryview
_IN_MEMORY = (bytes, bytearray, memoryview)
Records = Buffer | list[Buffer]

ZERO_UUID = bytes(16)
GATHER_BYTES = 32 * 1024
"""Records of this size or more are sent from where they lie; joining is cheaper below."""

MAX_ELEMENTS = 1_000_000
"""Elements of one array; Kafka 4.4 refuses more too."""

MAX_REQUEST_ELEMENTS = 100_000
"""Elements of one array of a request: a few bytes from a client cost a gateway much more each."""

MAX_TEXT_BYTES = 0x7FFF
"""The most bytes of a string, in flexible versions, too (Kafka refuses more, too): a string of a
flexible request must fit the answer to a client with a classic version.
"""

MAX_TAGS = 128
"""Tagged fields of one struct; Kafka defines 4 at most, Kafka 4.4 refuses above 10,000."""

DECODE_ERRORS = (struct.error, IndexError, UnicodeDecodeError)
"""Errors that generated readers raise for hostile bytes, besides RemoteProtocolError."""

ENCODE_ERRORS = (struct.error, UnicodeEncodeError, AttributeError, TypeError)
"""Errors that generated writers raise for values that do not fit their field."""

_MAX_VARINT_SHIFT = 28
_MAX_VARLONG_SHIFT = 63


def read_uvarint_tail(data: memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte had its high bit set."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            break
        shift += 7
        if shift > _MAX_VARINT_SHIFT:
            raise RemoteProtocolError("a varint is longer than 5 bytes")
    if value > 0xFFFF_FFFF:
        raise RemoteProtocolError("a varint does not fit 32 bits")
    return value, position


def read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 128:
        return first, position + 1
    return read_uvarint_tail(data, position + 1, first)


def read_text_length_tail(data: memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the rest of a string's length plus one, as read_uvarint_tail does."""
    length, position = read_uvarint_tail(data, position, first)
    if length > MAX_TEXT_BYTES + 1:
        raise RemoteProtocolError(f"a string has {length - 1} bytes, limit {MAX_TEXT_BYTES}")
    return length, position


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_compact_string(data: memoryview, position: int) -> tuple[str, int]:
    length = data[position]
    position += 1
    if length > 127:
        length, position = read_text_length_tail(data, position, length)
    if length == 0:
        raise RemoteProtocolError("null in an array of strings")
    end = position + length - 1
    return str(data[position:end], "utf-8"), end


def read_string(data: memoryview, position: int) -> tuple[str, int]:
    """Read a string with a length of two bytes."""
    value, end = read_nullable_string(data, position)
    if value is None:
        raise RemoteProtocolError("null in an array of strings")
    return value, end


def read_nullable_string(data: memoryview, position: int) -> tuple[str | None, int]:
    length = int.from_bytes(data[position : position + 2], "big", signed=True)
    position += 2
    if length < 0:
        if length < -1:
            raise negative_length("string", length)
        return None, position
    end = position + length
    return str(data[position:end], "utf-8"), end


def write_compact_string(out: bytearray, value: str) -> None:
    raw = value.encode()
    write_uvarint(out, len(raw) + 1)
    out += raw


def write_string(out: bytearray, value: str) -> None:
    raw = value.encode()
    out += struct.pack(">h", len(raw))
    out += raw


def read_tags(data: memoryview, position: int) -> Iterator[tuple[int, int, int]]:
    """Yield (tag, start, end) of each field of a tagged section that starts at position.

    The last end is the section's end.  The caller has seen that the section is not empty.
    """
    count, position = read_uvarint(data, position)
    if not 0 < count <= MAX_TAGS:
        raise RemoteProtocolError(f"{count} tagged fields, limit {MAX_TAGS}")
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        end = position + size
        if end > len(data):
            raise RemoteProtocolError(f"tagged field {tag} of {size} bytes passes the end")
        yield tag, position, end
        position = end


def skip_tags(data: memoryview, position: int) -> int:
    """Return the position after a tagged section that is not empty and has no known field."""
    return max(end for _, _, end in read_tags(data, position))


def write_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    """Write a tagged section; tags stand in rising order."""
    write_uvarint(out, len(tags))
    for tag, body in tags:
        write_uvarint(out, tag)
        write_uvarint(out, len(body))
        out += body


# Replica lists are short and many: a prepared Struct costs half as much as building its format.
_PACK_INT32S = [struct.Struct(f">{count}i").pack for count in range(17)]


def pack_int32s(values: list[int]) -> bytes:
    """Pack the elements of an int32 array, without their count."""
    count = len(values)
    if count < len(_PACK_INT32S):
        return _PACK_INT32S[count](*values)
    return struct.pack(f">{count}i", *values)


def records_size(records: Records) -> int:
    if isinstance(records, list):
        return sum(map(len, records))
    return len(records)


def join_records(out: bytearray, records: Records) -> None:
    for piece in records if isinstance(records, list) else (records,):
        out += piece


def gather_records(parts: list[Buffer], out: bytearray, records: Records) -> bytearray:
    """Add records to a message made of parts.

    Args:
      parts: finished parts.  Large pieces are added as they are, and so are pieces that are not in
        memory, of which only the length is known.
      out: the part that is being filled; small pieces are joined to it.

    Returns:
      The running part from now on.
    """
    for piece in records if isinstance(records, list) else (records,):
        if len(piece) < GATHER_BYTES and type(piece) in _IN_MEMORY:
            out += piece
            continue
        if out:
            parts.append(out)
            out = bytearray()
        parts.append(piece)
    return out


def null_field(name: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{name} is null")


def negative_length(name: str, length: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{name} has length {length}")


def too_many(name: str, count: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"{name} claims {count} elements, more than its bytes can hold, or than are allowed"
    )


def wrong_tag_size(tag: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"tagged field {tag} does not end where its size says")


def malformed(name: str, version: int, error: Exception | str) -> RemoteProtocolError:
    return RemoteProtocolError(f"malformed {name} version {version}: {error}")


def unknown_version(name: str, version: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{name} has no version {version}")


def not_null(name: str, version: int) -> LocalProtocolError:
    return LocalProtocolError(f"{name} may not be null in version {version}")


def not_in_version(name: str, version: int) -> LocalProtocolError:
    return LocalProtocolError(f"{name} is set and version {version} cannot carry it")


def not_encodable(name: str, version: int, error: Exception | str) -> LocalProtocolError:
    return LocalProtocolError(f"cannot encode {name} version {version}: {error}")


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a signed (zigzag) varint of at most 64 bits, as records use it.

    Raises:
      RemoteProtocolError: it is longer than 10 bytes.
      IndexError: the data ends inside it.
    """
    byte = data[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte > 127:
        if shift > _MAX_VARLONG_SHIFT:
            raise RemoteProtocolError("a varint is longer than 10 bytes")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position


def write_varint(out: bytearray, value: int) -> None:
    """Write a signed (zigzag) varint."""
    write_uvarint(out, (value << 1) if value >= 0 else ((-value << 1) - 1))
