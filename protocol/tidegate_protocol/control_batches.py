"""Control batches that end a transaction (KIP-98): 78 bytes, with one record.

    key: version 0 (int16), type (int16): 0 abort, 1 commit
    value: version 0 (int16), epoch of the transaction coordinator (int32)

Kafka's coordinator writes them into each partition.  A gateway makes them when it reads a marker.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from .batches import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
)

# Length, attributes, time stamp delta, offset delta; length of the key, version, type; length of
# the value, version, coordinator's epoch; number of headers.  All varints take one byte here.
_RECORD: Final = Struct(">bbbbbhhbhib")
MARKER_RECORD_BYTES: Final = _RECORD.size
CONTROL_BATCH_BYTES: Final = HEADER_BYTES + MARKER_RECORD_BYTES
_NO_SEQUENCE: Final = -1
_RECORD_LENGTH: Final = _RECORD.size - 1
_KEY_BYTES: Final = 4
_TYPES: Final = {0: False, 1: True}
_VALUE_BYTES: Final = 6
_CRC: Final = Struct(">I")
_CRC_POSITION: Final = 17


def _varint(number: int) -> int:
    """Return the zigzag varint of a number from 0 to 63, which is one byte."""
    return number << 1


def control_batch(
    *,
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
) -> bytes:
    """Return the batch that ends a producer's transaction, as Kafka writes it."""
    attributes = TRANSACTIONAL | CONTROL
    batch = bytearray(CONTROL_BATCH_BYTES)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        CONTROL_BATCH_BYTES - LENGTH_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        0,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        _NO_SEQUENCE,
        1,
    )
    _RECORD.pack_into(
        batch,
        HEADER_BYTES,
        _varint(_RECORD_LENGTH),
        0,
        0,
        0,
        _varint(_KEY_BYTES),
        0,
        int(committed),
        _varint(_VALUE_BYTES),
        0,
        0,
        0,
    )
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def commits(record: bytes) -> bool | None:
    """Return whether a control batch with this one record commits; None if it ends nothing."""
    if len(record) != MARKER_RECORD_BYTES:
        return None
    length, _, _, _, key_bytes, _, kind, *_ = _RECORD.unpack(record)
    if (length, key_bytes) != (_varint(_RECORD_LENGTH), _varint(_KEY_BYTES)):
        return None
    return _TYPES.get(kind)
