"""Record batches of magic 2: the header, its checks, and the few header bytes that we rewrite.

    base offset 8 | batch length 4 | leader epoch 4 | magic 1 | CRC-32C 4 | attributes 2
    last offset delta 4 | base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2
    base sequence 4 | record count 4 | records

The length counts the bytes after it.  The CRC covers the attributes and all bytes after them.  So
base offset and leader epoch may be rewritten freely, but timestamp type and max timestamp may not.
Older magics have another layout, but their magic byte is at the same place.

On the produce and fetch paths the records after the header stay opaque; ``records.py`` reads and
writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from .compression import Codec, compress
from .errors import InvalidBatch, InvalidReason
from .primitives import Buffer

HEADER_BYTES = 61
LENGTH_OVERHEAD = 12
"""Bytes that the batch length does not count: base offset and the length itself."""

MAGIC = 2
MAGIC_POSITION = 16

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_MAX_CODEC = max(Codec)
_MAX_SEQUENCE = 2**31 - 1
# The length of a record of magic 0 without key and value.
_SMALLEST_LENGTH = 14
CRC_POSITION = 17
CRC_START = 21
_LENGTH_POSITION = 8
_LEADER_EPOCH_POSITION = 12
_MAX_TIMESTAMP_POSITION = 35

HEADER = Struct(">qiibIhiqqqhii")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT64 = Struct(">q")


class BatchHeader(NamedTuple):
    """The 61 bytes before the records.

    For a batch with a delete horizon (compacted), base_timestamp is that horizon.
    """

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at position; check only that it is complete.

    Raises:
      InvalidBatch: less than a header is left (CORRUPT).
    """
    if len(data) - position < HEADER_BYTES:
        raise _corrupt(f"{len(data) - position} bytes are less than a batch header")
    return BatchHeader._make(HEADER.unpack_from(data, position))


def check_batch(data: memoryview) -> BatchHeader:
    """Check what a producer sent for one partition, and return its header.

    Exactly one batch of magic 2 with a true CRC, numbered from 0.  Nothing is decompressed.

    Raises:
      InvalidBatch: with the reason that Kafka would give, in Kafka's order of checks.
    """
    size = len(data)
    if size < HEADER_BYTES:
        raise _not_one_batch(data)
    # The same as BatchHeader._make(), but without a call, since it runs for each batch.
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(data))  # pyright: ignore[reportUnknownMemberType]
    base_offset, length, _, magic, crc, attributes, last_offset_delta = header[:7]
    producer_id, _, base_sequence, count = header[9:]
    if magic != MAGIC or length != size - LENGTH_OVERHEAD:
        raise _not_one_batch(data)
    if base_offset != 0:
        raise _invalid(f"base offset is {base_offset}, a producer's is 0")
    if crc != crc32c(data[CRC_START:]):
        raise _corrupt("CRC-32C does not match")
    if count <= 0 or last_offset_delta + 1 != count:
        raise _invalid(f"{count} records, but last offset delta {last_offset_delta}")
    # One test for all rare cases: control batches, a codec above zstd.
    if attributes & CONTROL or attributes & CODEC_MASK > _MAX_CODEC:
        _check_attributes(header)
    if producer_id >= 0 and base_sequence < 0:
        raise _invalid(f"base sequence is {base_sequence} with a producer id")
    return header


def _check_attributes(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("clients may not write control batches")
    raise _invalid(f"no codec has number {header.codec}")


def _not_one_batch(data: memoryview) -> InvalidBatch:
    """Return why data is not one batch of magic 2, as Kafka's reader finds it.

    A batch that is cut short is no batch, so Kafka does not call it corrupt, and the producer must
    not retry (ByteBufferLogInputStream, ProduceRequest.validateRecords).
    """
    size = len(data)
    if size == 0:
        return _invalid("no record batch")
    if size < LENGTH_OVERHEAD:
        return _cut(size)
    length = int.from_bytes(data[_LENGTH_POSITION:LENGTH_OVERHEAD], "big", signed=True)
    if length < _SMALLEST_LENGTH:
        return _corrupt(f"batch length {length} is less than that of any batch")
    if size <= MAGIC_POSITION:
        return _cut(size)
    magic = data[MAGIC_POSITION]
    if magic > MAGIC:
        return _corrupt(f"magic {magic} is unknown")
    if LENGTH_OVERHEAD + length > size:
        return _cut(size)
    if magic != MAGIC:
        return _invalid(f"magic is {magic}, only {MAGIC} is served")
    if LENGTH_OVERHEAD + length < HEADER_BYTES:
        return _corrupt(f"batch length {length} is less than a batch header")
    return _invalid("more than one record batch in a partition")


def _cut(size_bytes: int) -> InvalidBatch:
    return _invalid(f"{size_bytes} bytes are less than the batch that they begin")


def _invalid(message: str) -> InvalidBatch:
    return InvalidBatch(InvalidReason.INVALID_RECORD, message)


def _corrupt(message: str) -> InvalidBatch:
    return InvalidBatch(InvalidReason.CORRUPT, message)


def walk(data: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and the header of each batch; CRCs are not checked.

    Raises:
      InvalidBatch: the batches do not fill the data exactly, or are not magic 2 (CORRUPT).
    """
    position, end = 0, len(data)
    while position < end:
        header = read_header(data, position)
        size = header.size_bytes
        if header.magic != MAGIC or not HEADER_BYTES <= size <= end - position:
            raise _corrupt(f"no batch of magic 2 fits at byte {position} of {end}")
        yield position, header
        position += size


def crc_matches(data: memoryview, position: int, header: BatchHeader) -> bool:
    """Return whether the CRC of the batch at position matches."""
    return crc32c(data[position + CRC_START : position + header.size_bytes]) == header.crc


def empty_batch(base_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    """Return a batch without records, as Kafka's compaction leaves them: readers continue after it.

    next_offset: above base_offset; offsets beyond the largest span of a batch are not covered.
    """
    last_delta = min(next_offset - base_offset, 1 << 31) - 1
    fields = (base_offset, HEADER_BYTES - LENGTH_OVERHEAD, leader_epoch, MAGIC, 0, 0, last_delta)
    batch = bytearray(HEADER.pack(*fields, -1, -1, -1, -1, -1, 0))
    _UINT32.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def packed(
    header: BatchHeader, records: Buffer, *, codec: int, level: int | None = None
) -> tuple[memoryview, BatchHeader]:
    """Return the batch of encoded records, compressed with a codec, and its header.

    header: gives all fields but the length, the codec and the CRC.
    """
    return framed(header, compress(records, codec, level=level), codec=codec)


def framed(header: BatchHeader, payload: bytes, *, codec: int) -> tuple[memoryview, BatchHeader]:
    """Return the batch of records that are compressed already; otherwise as packed()."""
    header = header._replace(
        batch_length=HEADER_BYTES - LENGTH_OVERHEAD + len(payload),
        attributes=header.attributes & ~CODEC_MASK | codec,
    )
    return with_header(memoryview(bytearray(HEADER_BYTES) + payload), header)


def with_header(batch: memoryview, header: BatchHeader) -> tuple[memoryview, BatchHeader]:
    """Write a header over that of a batch, with the CRC of both; in place, if that is possible."""
    if batch.readonly:
        batch = memoryview(bytearray(batch))
    HEADER.pack_into(batch, 0, *header)
    crc = crc32c(batch[CRC_START:])
    _UINT32.pack_into(batch, CRC_POSITION, crc)
    return batch, header._replace(crc=crc)


def set_base_offset(
    buffer: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch of the batch at position, which the CRC does not cover."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def set_log_append_time(
    buffer: bytearray | memoryview, position: int, *, size: int, timestamp_ms: int
) -> None:
    """Mark the batch of size bytes at position with the broker's time, with a new CRC.

    The records keep their deltas; readers take the max time stamp for each of them.
    """
    (attributes,) = _INT16.unpack_from(buffer, position + CRC_START)
    _INT16.pack_into(buffer, position + CRC_START, attributes | LOG_APPEND_TIME)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    with memoryview(buffer) as view, view[position + CRC_START : position + size] as covered:
        _UINT32.pack_into(buffer, position + CRC_POSITION, crc32c(covered))


def last_sequence(base_sequence: int, record_count: int) -> int:
    """Return the sequence of a batch's last record; 0 follows 2^31 - 1."""
    if base_sequence < 0:
        return base_sequence
    return (base_sequence + record_count - 1) & _MAX_SEQUENCE
