"""Where the records of a batch lie in its decompressed bytes.  Pure.

Compaction needs a record's key, whether it has a value, and its bytes to copy; decoding more would
cost several times as much.  So this walks over the fields before the value, most of whose numbers
take one byte.  Compaction looks only at batches that the walk of tidegate_protocol.record_walk
accepts; this module trusts no size either:

    length | attributes 1 | timestamp delta | offset delta | key length | key | value length | ...
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate_protocol.errors import InvalidBatch, InvalidReason

_ONE_BYTE = 0x7F
_NULL = 1  # -1, zigzag
_LAST_SHIFT = 63


class Spans(NamedTuple):
    """The records of a batch, in order.

    starts: the first byte of each record, and the end of the last record.  keys: None for a record
    without a key.
    nulls: whether the value is null, which makes a tombstone.
    """

    starts: list[int]
    offset_deltas: list[int]
    keys: list[bytes | None]
    nulls: list[bool]


def record_spans(payload: bytes, count: int) -> Spans:
    """Walk over the records of a batch.

    Raises:
      InvalidBatch: the records do not match the header's count, or are malformed.
    """
    try:
        spans = _walk(payload, count)
    except IndexError:
        raise _invalid("the records end too early") from None
    if spans.starts[-1] != len(payload):
        raise _invalid(f"the records end at byte {spans.starts[-1]} of {len(payload)}")
    return spans


def _walk(payload: bytes, count: int) -> Spans:
    """Walk over all records.  The loop runs once a record, so the common case is inline."""
    starts, deltas, keys, nulls = list[int](), list[int](), list[bytes | None](), list[bool]()
    end, is_wrong = 0, 0
    for _ in range(count):
        starts.append(end)
        length = payload[end]
        at = end + 1
        if length > _ONE_BYTE:
            more = payload[at]
            length += (more - 1) << 7
            at += 1
            if more > _ONE_BYTE:
                length, at = _rest(payload, end + 1, payload[end])
        end = at + (length >> 1)
        at += 1  # attributes, which are unused
        while payload[at] > _ONE_BYTE:  # the time stamp delta
            at += 1
        delta = payload[at + 1]
        at += 2
        if delta > _ONE_BYTE:
            delta, at = _rest(payload, at, delta)
        size = payload[at]
        at += 1
        if size > _ONE_BYTE:
            size, at = _rest(payload, at, size)
        if size & 1:
            keys.append(None)
        elif size >> 1 > end - at:  # checked before the key is copied
            raise _invalid("a key passes the end of its record")
        else:
            keys.append(payload[at : at + (size >> 1)])
            at += size >> 1
        is_wrong |= (length | delta) & 1 or at >= end  # odd numbers are negative
        deltas.append(delta >> 1)
        nulls.append(payload[at] == _NULL)
    starts.append(end)
    if is_wrong:
        raise _invalid("a record does not end where its length says")
    return Spans(starts, deltas, keys, nulls)


def _rest(payload: bytes, at: int, first: int) -> tuple[int, int]:
    """Return an unsigned varint of several bytes, and the position after it."""
    number, shift = first & _ONE_BYTE, 7
    while True:
        byte = payload[at]
        at += 1
        number |= (byte & _ONE_BYTE) << shift
        if byte <= _ONE_BYTE:
            return number, at
        shift += 7
        if shift > _LAST_SHIFT:
            raise _invalid("a number of more than 64 bits")


def timestamp_delta(payload: bytes, start: int) -> int:
    """Return the timestamp delta, ms, of the record at start; it may be any number."""
    while payload[start] > _ONE_BYTE:
        start += 1
    start += 2
    number = shift = 0
    while True:
        byte = payload[start]
        number |= (byte & _ONE_BYTE) << shift
        if byte <= _ONE_BYTE or shift > _LAST_SHIFT:
            return (number >> 1) ^ -(number & 1)
        start += 1
        shift += 7


def _invalid(message: str) -> InvalidBatch:
    return InvalidBatch(InvalidReason.INVALID_RECORD, message)
