"""Batches as gateways write them back to a source, and as the source stores them.  Pure.

The base offset and the leader epoch lie outside of a batch's CRC, so a batch goes back with the
bytes of its producer.  One exception: if a batch got its time stamps here, its LogAppendTime
attribute is cleared, since brokers refuse such a batch.  The source stamps the batch again.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from crc32c import crc32c

from tidegate_protocol.batches import (
    CRC_POSITION,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    read_header,
)
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.records import decode_records

_BASE_OFFSET = Struct(">q")
_ATTRIBUTES = Struct(">h")
_CRC = Struct(">I")
_MAX_DECOMPRESSED_BYTES = 32 << 20


class Diverged(Exception):
    """A partition cannot be the same at the source as here.  The text says why, for a person."""


def sendable(raw: memoryview, header: BatchHeader, offset: int) -> memoryview:
    """Return the batch of an offset as a producer sends it.

    Raises:
      Diverged: the source could not give the batch this offset, or would not take it from a
        producer.
    """
    if header.base_offset != offset:
        raise Diverged(f"offset {offset} is not here any more")
    if header.is_control or header.is_transactional:
        raise Diverged(f"offset {offset} belongs to a transaction")
    batch = bytearray(raw)
    _BASE_OFFSET.pack_into(batch, 0, 0)
    if header.attributes & LOG_APPEND_TIME:
        _ATTRIBUTES.pack_into(batch, CRC_START, header.attributes & ~LOG_APPEND_TIME)
        _CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
    return memoryview(batch)


def fitting(records: memoryview, start: int) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield the whole batches of fetched records, from the batch of an offset on."""
    at = 0
    while len(records) - at >= HEADER_BYTES:
        header = read_header(records, at)
        if header.size_bytes < HEADER_BYTES or at + header.size_bytes > len(records):
            return
        if header.last_offset >= start:
            yield records[at : at + header.size_bytes], header
        at += header.size_bytes


def differs(own: memoryview | None, theirs: memoryview, header: BatchHeader) -> str:
    """Return how a batch of the source differs from that of the same offset here; "" if not at all.

    header: of the source's batch.  These differences are allowed: the source may have stamped the
    records, compressed them again, or compacted the batch.
    """
    offset = header.base_offset
    if own is None:
        return f"the source has a record at offset {offset} that is not here"
    mine = read_header(own, 0)
    if _identity(mine) != _identity(header):
        return f"the source has another batch at offset {offset}"
    if own[HEADER_BYTES:] == theirs[HEADER_BYTES:]:
        return ""
    try:
        is_same = set(_contents(theirs)) <= set(_contents(own))
    except InvalidBatch as error:
        return f"the batch at offset {offset} cannot be compared: {error}"
    return "" if is_same else f"the source has other records at offset {offset}"


def _identity(header: BatchHeader) -> tuple[int, ...]:
    return (
        header.base_offset,
        header.last_offset,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


def _contents(batch: memoryview) -> list[tuple[object, ...]]:
    found = decode_records(batch, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES)
    return [(each.offset, each.key, each.value, tuple(each.headers)) for each in found]
