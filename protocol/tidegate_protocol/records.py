"""The records inside a batch, for the cold paths: validation, recompression, compaction, tests.

The hot paths need only the batch around the records.  ``batches.py`` has the code for that, and
this module exports its names, too.

    length | attributes 1 | timestamp delta | offset delta | key length | key | value length | value
    header count | (key length | key | value length | value)...

All numbers are zigzag varints; a length of -1 is null.  Nothing here trusts a number it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .batches import HEADER_BYTES, MAGIC, packed
from .batches import BatchHeader as BatchHeader
from .batches import check_batch as check_batch
from .batches import crc_matches as crc_matches
from .batches import last_sequence as last_sequence
from .batches import read_header as read_header
from .batches import set_base_offset as set_base_offset
from .batches import set_log_append_time as set_log_append_time
from .batches import walk as walk
from .compression import Codec, decompress
from .errors import InvalidBatch as InvalidBatch
from .errors import InvalidReason as InvalidReason
from .errors import RemoteProtocolError
from .primitives import Buffer, read_varint, write_varint

MAX_HEADERS = 100_000
"""Headers of one record.  Empty ones take two bytes each, and compress to nothing: without a bound
a batch of kilobytes could make gigabytes of them."""

_TIMESTAMP_LIMIT = 2**63
_INT32_BYTES = 5

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One record.  Header keys that are not UTF-8 keep their bytes as surrogates (PEP 383)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode_records(batch: Buffer, *, max_decompressed_bytes: int) -> Iterator[Record]:
    """Yield the records of the one batch in the buffer.

    The CRC is not checked.

    Raises:
      InvalidBatch: while iterating; the records contradict the header (INVALID_RECORD), are too
          large when decompressed (INVALID_RECORD), or cannot be decompressed (CORRUPT).
    """
    header = read_header(batch)
    if header.magic != MAGIC or header.size_bytes != len(batch):
        raise InvalidBatch(InvalidReason.CORRUPT, "not exactly one batch of magic 2")
    raw = memoryview(batch)[HEADER_BYTES:]
    payload = bytes(decompress(raw, header.codec, max_bytes=max_decompressed_bytes))
    if header.record_count < 0:
        raise _invalid(f"the batch has {header.record_count} records")
    try:
        yield from _records(payload, header)
    except (IndexError, RemoteProtocolError) as error:
        raise _invalid(f"a record cannot be read: {error}") from error


def _records(payload: bytes, header: BatchHeader) -> Iterator[Record]:
    position = 0
    for _ in range(header.record_count):
        length, start = _number(payload, position)
        record, position = _record(payload, start, header)
        if position != start + length:
            raise _invalid("a record does not end where its length says")
        yield record
    if position != len(payload):
        raise _invalid(f"{len(payload) - position} bytes after the last record")


def _record(payload: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    timestamp_delta, position = read_varint(payload, position + 1)
    offset_delta, position = _number(payload, position)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise _invalid(f"offset delta {offset_delta} is outside the batch")
    timestamp = header.base_timestamp + timestamp_delta
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    if not -_TIMESTAMP_LIMIT <= timestamp < _TIMESTAMP_LIMIT:
        raise _invalid(f"time stamp {timestamp} does not fit 64 bits")
    key, position = _bytes(payload, position)
    value, position = _bytes(payload, position)
    headers, position = _headers(payload, position)
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), position


def _headers(payload: bytes, position: int) -> tuple[Headers, int]:
    count, position = _number(payload, position)
    if count == 0:
        return (), position
    if not 0 < count <= MAX_HEADERS:
        raise _invalid(f"a record has {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _bytes(payload, position)
        if key is None:
            raise _invalid("a header has no key")
        value, position = _bytes(payload, position)
        headers.append((key.decode(errors="surrogateescape"), value))
    return headers, position


def _bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _number(payload, position)
    if length < 0:
        if length != -1:
            raise _invalid(f"a key or value has length {length}")
        return None, position
    end = position + length
    if end > len(payload):
        raise _invalid("a key or value passes the end")
    return payload[position:end], end


def _number(payload: bytes, position: int) -> tuple[int, int]:
    """Read a number of 32 bits, in at most 5 bytes, as Java's clients do."""
    value, end = read_varint(payload, position)
    if end - position > _INT32_BYTES:
        raise _invalid(f"a number has {end - position} bytes")
    return value, end


def _invalid(message: str) -> InvalidBatch:
    return InvalidBatch(InvalidReason.INVALID_RECORD, message)


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    level: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Build a batch as a producer does; its base offset is its first record's.

    Args:
      records: at least one, in rising order of offset.
      attributes: the bits beside the codec (TRANSACTIONAL, CONTROL, ...).
    """
    first, last = records[0], records[-1]
    header = BatchHeader(
        base_offset=first.offset,
        batch_length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last.offset - first.offset,
        base_timestamp=first.timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return rebuild_batch(header, records, codec=codec, level=level)


def rebuild_batch(
    header: BatchHeader, records: Iterable[Record], *, codec: int, level: int | None = None
) -> bytes:
    """Rebuild the batch of a header with another codec, or without some of its records.

    All other header fields stay, so recompression and compaction keep offsets, sequences and
    timestamp type.  A delete horizon, stored in the base timestamp, stays too, and the deltas count
    from it.
    """
    raw = bytearray()
    count = 0
    for record in records:
        _write_record(raw, record, header)
        count += 1
    batch, _ = packed(header._replace(record_count=count), raw, codec=codec, level=level)
    return bytes(batch)


def _write_record(out: bytearray, record: Record, header: BatchHeader) -> None:
    body = bytearray(1)
    write_varint(body, record.timestamp - header.base_timestamp)
    write_varint(body, record.offset - header.base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key.encode(errors="surrogateescape"))
        _write_bytes(body, value)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value
