"""Which records of a compacted topic stay, and batches without those that go.  Pure.

A record stays if it is the newest of its key, up to the end of what the round has before it.  A
tombstone stays, besides, until the rounds before have been there for `delete.retention.ms`.  A
record without a key goes.  Control batches stay.

The framing is Kafka's: base offset, last offset delta, producer fields, base time stamp and codec
of a batch stay; record count, length, CRC and largest time stamp follow from what is left, and the
records that stay are copied byte for byte.  A batch that loses nothing is not touched.  One that
loses everything is dropped, since the cluster state knows producers and ends, except the last one
of a round: it stays without records, so that a consumer gets to the end (as with Kafka).  A batch
whose records cannot be read stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress as select
from itertools import islice, pairwise
from operator import le, lt
from struct import Struct

from crc32c import crc32c

from tidegate_protocol.batches import (
    CODEC_MASK,
    CONTROL,
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchHeader,
    read_header,
)
from tidegate_protocol.compression import compress, decompress
from tidegate_protocol.errors import InvalidBatch

from .record_spans import Spans, record_spans, timestamp_delta

MAX_DECOMPRESSED_BYTES = 256 << 20
# What an entry of the map takes beside the bytes of its key.
_ENTRY_BYTES = 150
_UINT32 = Struct(">I")


@dataclass(slots=True)
class Removed:
    """How many records went, by reason; unreadable: batches that stayed as they were."""

    superseded: int = 0
    tombstones: int = 0
    keyless: int = 0
    unreadable: int = 0

    @property
    def total(self) -> int:
        """Return all records that went."""
        return self.superseded + self.tombstones + self.keyless


class LatestOffsets:
    """The newest offset of each key in what is dirty.

    size_bytes: about what it takes.  end_offset: the first one it knows nothing of.
    """

    def __init__(self, end_offset: int) -> None:
        self.offsets: dict[bytes | None, int] = {}
        self.size_bytes = 0
        self.end_offset = end_offset

    def add(self, batch: memoryview) -> None:
        """Take note of all records of the next batch."""
        header = read_header(batch)
        read = _read(batch, header)
        self.end_offset = header.last_offset + 1
        if read is None:
            return
        keys, offsets = read[1].keys, self.offsets
        before = len(offsets)
        base_offset = header.base_offset
        offsets.update(
            zip(keys, [base_offset + delta for delta in read[1].offset_deltas], strict=True)
        )
        offsets.pop(None, None)
        key_bytes = sum(map(len, filter(None, keys))) // max(len(keys), 1)
        self.size_bytes += (len(offsets) - before) * (_ENTRY_BYTES + key_bytes)


def compact_batch(
    batch: memoryview,
    latest: LatestOffsets,
    *,
    tombstones_below: int,
    is_last: bool,
    removed: Removed,
) -> memoryview | None:
    """Return the batch without the records that go: itself if none do, None if nothing stays.

    Args:
      tombstones_below: older ones go.  is_last: of the round, so that its end has to stay.
      removed: added to.
    """
    header = read_header(batch)
    read = _read(batch, header)
    if read is None:
        removed.unreadable += not header.attributes & CONTROL
        return batch
    payload, spans = read
    stays = _stays(header.base_offset, spans, latest.offsets, tombstones_below, removed)
    if all(stays) and (stays or is_last):
        return batch
    if not any(stays) and not is_last:
        return None
    return _rebuilt(batch, header, payload, spans, stays)


def _read(batch: memoryview, header: BatchHeader) -> tuple[bytes, Spans] | None:
    """Return the records of a batch, decompressed; None for those that are not to be touched."""
    if header.attributes & CONTROL:
        return None
    raw = batch[HEADER_BYTES:]
    try:
        payload = bytes(decompress(raw, header.codec, max_bytes=MAX_DECOMPRESSED_BYTES))
        spans = record_spans(payload, header.record_count)
    except InvalidBatch:
        return None
    deltas = spans.offset_deltas
    # A record that claims an offset of later ones would hide those.
    is_in_order = all(map(lt, deltas, islice(deltas, 1, None)))
    return (payload, spans) if is_in_order and _ends_within(deltas, header) else None


def _ends_within(deltas: list[int], header: BatchHeader) -> bool:
    return not deltas or deltas[-1] <= header.last_offset_delta


def _stays(
    base_offset: int,
    spans: Spans,
    latest: dict[bytes | None, int],
    tombstones_below: int,
    removed: Removed,
) -> list[bool]:
    """Tell of each record whether it stays; what is common runs without a loop of ours."""
    offsets = [base_offset + delta for delta in spans.offset_deltas]
    stays = list(map(le, map(latest.get, spans.keys, offsets), offsets))
    removed.superseded += stays.count(False)
    if None in spans.keys:
        for at, key in enumerate(spans.keys):
            if key is None:
                stays[at] = False
                removed.keyless += 1
    if base_offset < tombstones_below and True in spans.nulls:
        for at, is_null in enumerate(spans.nulls):
            if is_null and stays[at] and offsets[at] < tombstones_below:
                stays[at] = False
                removed.tombstones += 1
    return stays


def _rebuilt(
    batch: memoryview, header: BatchHeader, payload: bytes, spans: Spans, stays: list[bool]
) -> memoryview:
    """Return the batch with the records that stay."""
    records = b"".join([payload[start:end] for start, end in select(pairwise(spans.starts), stays)])
    attributes, max_timestamp = header.attributes, header.max_timestamp
    if not records:
        attributes &= ~CODEC_MASK
    elif not header.is_log_append_time:
        kept = select(spans.starts, stays)
        max_timestamp = header.base_timestamp + max(timestamp_delta(payload, at) for at in kept)
    body = compress(records, header.codec) if header.codec and records else records
    rebuilt = bytearray(batch[:HEADER_BYTES]) + body
    fields = header._replace(
        batch_length=len(rebuilt) - LENGTH_OVERHEAD,
        attributes=attributes,
        max_timestamp=max_timestamp,
        record_count=sum(stays),
    )
    HEADER.pack_into(rebuilt, 0, *fields)
    _UINT32.pack_into(rebuilt, CRC_POSITION, crc32c(memoryview(rebuilt)[CRC_START:]))
    return memoryview(rebuilt)
