"""Compaction: which records of a topic stay, and the batches without the others.  Pure.

A record stays if it is the newest of its key, up to the end of the round.  A tombstone is removed
only when `delete.retention.ms` have passed since an earlier round covered it.  A record without a
key is removed.  Records of aborted transactions are removed, and supersede nothing.

The marker of a transaction is removed when its data is gone, but not before a tombstone would be: a
reader of committed records may have read the data before.  An aborted transaction's entries in the
indexes of segments are removed at that time, and its marker in a later round.  One round does not
remove both, because its segments may be published separately: if an entry stayed without its
marker, a reader would drop later records of the producer.

The framing is Kafka's: base offset, last offset delta, producer fields, base timestamp and codec of
a batch stay; record count, length, CRC and largest timestamp follow from the remaining records,
which are copied byte for byte.  A batch that loses no record is not changed.  A batch that loses
all records is dropped, since the cluster state knows producers and end offsets.  Only the last
batch of a round stays without records, so that a consumer reaches the end (as in Kafka).  A batch
whose records cannot be read, or that the walk of tidegate_protocol.record_walk refuses, stays as it
is. Such a batch may hold records that a later tombstone deletes, so such tombstones stay, too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import compress as select
from itertools import pairwise
from operator import itemgetter, le
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from tidegate_protocol.batch_walk import walked_records
from tidegate_protocol.batches import (
    CODEC_MASK,
    CONTROL,
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from tidegate_protocol.compression import compress
from tidegate_protocol.errors import InvalidBatch
from tidegate_storage.objects.segment_format import AbortedTransaction

from .record_spans import Spans, record_spans, timestamp_delta

MAX_DECOMPRESSED_BYTES = 256 << 20
# As many records as a produced batch may have.
MAX_RECORDS = 2_000_000
# For a longer key the map keeps a hash, which bounds the size of an entry.
LONG_KEY_BYTES = 64
ENTRY_BYTES = 150 + LONG_KEY_BYTES
_HASH_BYTES = 32
# The bytes of decoded batches that are kept from the first to the second reading, and the bytes
# that a record takes.
REMEMBERED_BYTES = 64 << 20
_SPAN_BYTES = 150
_UINT32 = Struct(">I")


@dataclass(slots=True)
class Removed:
    """Counts of removed records, by reason; unreadable: batches that stayed as they were.

    aborted: records of aborted transactions. markers: markers of transactions without data.
    """

    superseded: int = 0
    tombstones: int = 0
    keyless: int = 0
    unreadable: int = 0
    aborted: int = 0
    markers: int = 0

    @property
    def total(self) -> int:
        """Return the number of removed records."""
        of_keys = self.superseded + self.tombstones + self.keyless
        return of_keys + self.aborted + self.markers

    def add(self, other: Removed) -> None:
        """Add the counts of another."""
        self.superseded += other.superseded
        self.tombstones += other.tombstones
        self.keyless += other.keyless
        self.unreadable += other.unreadable
        self.aborted += other.aborted
        self.markers += other.markers


class _Read(NamedTuple):
    """The records of a batch, decompressed.  newest_ms: the largest of their time stamps."""

    payload: bytes
    spans: Spans
    newest_ms: int


_first = itemgetter(0)
_NO_SPANS = Spans([0], [], [], [])


class AbortedSet:
    """The aborted transactions of the sources read so far."""

    def __init__(self) -> None:
        # First and last offset, in order: the transactions of one producer do not overlap.
        self._spans: dict[int, list[tuple[int, int]]] = {}

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions of a source; repeats are harmless."""
        for producer_id, first, last in aborted:
            spans = self._spans.setdefault(producer_id, [])
            at = bisect_left(spans, (first, last))
            if spans[at : at + 1] != [(first, last)]:
                spans.insert(at, (first, last))

    def holds(self, header: BatchHeader) -> bool:
        """Return whether a batch belongs to an aborted transaction."""
        if not header.attributes & TRANSACTIONAL or header.attributes & CONTROL:
            return False
        return header.base_offset <= self._last_offset(header)

    def is_ended_by(self, header: BatchHeader) -> bool:
        """Return whether a marker ends an aborted transaction."""
        return header.base_offset == self._last_offset(header)

    def _last_offset(self, header: BatchHeader) -> int:
        """Return where the producer's last transaction ends that begins at the batch or before."""
        spans = self._spans.get(header.producer_id, ())
        at = bisect_right(spans, header.base_offset, key=_first)
        return spans[at - 1][1] if at else -1


class LatestOffsets:
    """The newest offset of each key in the dirty sources.

    end_offset: the first offset after the read ones.  The map keeps up to remembered_bytes of
    decoded batches, since decoding is most of the work of a round.
    """

    def __init__(self, end_offset: int, *, remembered_bytes: int = REMEMBERED_BYTES) -> None:
        self.offsets: dict[bytes | None, int] = {}
        self.end_offset = end_offset
        self._room_bytes = remembered_bytes
        self._remembered: dict[tuple[int, int], _Read] = {}

    @property
    def size_bytes(self) -> int:
        """Return the bytes of memory that it takes, at least about."""
        return len(self.offsets) * ENTRY_BYTES

    def add(self, batch: memoryview, aborted: AbortedSet) -> None:
        """Add all records of the next batch, unless its transaction was aborted."""
        header = read_header(batch)
        read = _read(batch, header) if not aborted.holds(header) else None
        self.end_offset = header.last_offset + 1
        if read is not None:
            base_offset = header.base_offset
            new = [base_offset + delta for delta in read.spans.offset_deltas]
            self.offsets.update(zip(_short(read.spans.keys), new, strict=True))
            self.offsets.pop(None, None)
            self._remember(header, read)

    def _remember(self, header: BatchHeader, read: _Read) -> None:
        size_bytes = len(read.payload) + _SPAN_BYTES * len(read.spans.keys)
        if size_bytes <= self._room_bytes:
            self._room_bytes -= size_bytes
            self._remembered[header.base_offset, header.crc] = read

    def records_of(self, batch: memoryview, header: BatchHeader) -> _Read | None:
        """Return the records of a batch; None if the batch must stay unchanged.

        A kept decoded batch is returned once and then dropped.
        """
        known = self._remembered.pop((header.base_offset, header.crc), None)
        return known or _read(batch, header)


class Cleaner:
    """Cleans the batches of a partition, in offset order.

    tombstones_below: tombstones and markers below this offset are removed.  aborted: transactions;
      the caller adds those of each source before its batches.
    """

    def __init__(self, latest: LatestOffsets, tombstones_below: int, aborted: AbortedSet) -> None:
        self._latest = latest
        self._tombstones_below = tombstones_below
        self._markers_below = tombstones_below
        self._aborted = aborted
        self._with_data: set[int] = set()  # producers whose transactions have data left
        self.removed = Removed()

    def clean(self, batch: memoryview, *, is_last: bool) -> memoryview | None:
        """Return the batch with the remaining records; None if none stays.

        If all stay, and the header has the largest of their time stamps, this is the batch itself.

        is_last: the batch's last offset has to stay.
        """
        header = read_header(batch)
        if header.attributes & CONTROL:
            return self._clean_marker(batch, header, is_last=is_last)
        if self._aborted.holds(header):
            return self._clean_aborted(batch, header, is_last=is_last)
        left = self._clean_records(batch, header, is_last=is_last)
        if (
            left is not None
            and header.attributes & TRANSACTIONAL
            and read_header(left).record_count
        ):
            self._with_data.add(header.producer_id)
        return left

    def keeps_entry(self, transaction: AbortedTransaction) -> bool:
        """Return whether the index of segments still names an aborted transaction."""
        return transaction.last_offset >= self._markers_below

    def _clean_marker(
        self, batch: memoryview, header: BatchHeader, *, is_last: bool
    ) -> memoryview | None:
        has_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        is_young = header.base_offset >= self._markers_below
        if has_data or is_last or is_young or self._aborted.is_ended_by(header):
            return batch
        self.removed.markers += header.record_count
        return None

    def _clean_aborted(
        self, batch: memoryview, header: BatchHeader, *, is_last: bool
    ) -> memoryview | None:
        if is_last and not header.record_count:
            return batch
        self.removed.aborted += header.record_count
        return _rebuilt(batch, header, b"", _NO_SPANS, []) if is_last else None

    def _clean_records(
        self, batch: memoryview, header: BatchHeader, *, is_last: bool
    ) -> memoryview | None:
        read = self._latest.records_of(batch, header)
        if read is None:
            self.removed.unreadable += 1
            self._tombstones_below = min(self._tombstones_below, header.base_offset)
            return batch
        payload, spans, newest_ms = read
        gone = Removed()
        stays = self._stays(header.base_offset, spans, gone)
        self.removed.add(gone)
        is_true = not stays or newest_ms == header.max_timestamp
        if all(stays) and (stays or is_last) and is_true:
            return batch
        if not any(stays) and not is_last:
            return None
        return _rebuilt(batch, header, payload, spans, stays)

    def _stays(self, base_offset: int, spans: Spans, gone: Removed) -> list[bool]:
        """Return for each record whether it stays; the common case needs no Python loop."""
        offsets = [base_offset + delta for delta in spans.offset_deltas]
        stays = list(map(le, map(self._latest.offsets.get, _short(spans.keys), offsets), offsets))
        gone.superseded += stays.count(False)
        if None in spans.keys:
            for at, key in enumerate(spans.keys):
                if key is None:
                    stays[at] = False
                    gone.keyless += 1
        if base_offset < self._tombstones_below and True in spans.nulls:
            for at, is_null in enumerate(spans.nulls):
                if is_null and stays[at] and offsets[at] < self._tombstones_below:
                    stays[at] = False
                    gone.tombstones += 1
        return stays


def _read(batch: memoryview, header: BatchHeader) -> _Read | None:
    """Return the records of a batch; None if the batch must stay unchanged."""
    if header.attributes & CONTROL or header.record_count > MAX_RECORDS:
        return None
    try:
        payload, walk = walked_records(batch, header, max_bytes=MAX_DECOMPRESSED_BYTES)
        spans = record_spans(payload, header.record_count)
    except InvalidBatch:
        return None
    # The deltas rise.  A record that claims a later batch's offset would supersede that record.
    deltas = spans.offset_deltas
    is_within = not deltas or deltas[-1] <= header.last_offset_delta
    newest_ms = header.max_timestamp if header.is_log_append_time else walk.max_timestamp
    return _Read(payload, spans, newest_ms) if is_within else None


def _short(keys: list[bytes | None]) -> list[bytes | None]:
    """Return keys as the map holds them."""
    if max(map(len, filter(None, keys)), default=0) <= LONG_KEY_BYTES:
        return keys
    return [
        blake2b(key, digest_size=_HASH_BYTES).digest()
        if key is not None and len(key) > LONG_KEY_BYTES
        else key
        for key in keys
    ]


def _rebuilt(
    batch: memoryview, header: BatchHeader, payload: bytes, spans: Spans, stays: list[bool]
) -> memoryview:
    """Return the batch with the remaining records."""
    records = b"".join([payload[start:end] for start, end in select(pairwise(spans.starts), stays)])
    attributes, max_timestamp = header.attributes, header.max_timestamp
    if not records:
        attributes &= ~CODEC_MASK
        max_timestamp = -1  # for searches by time, which would look for a record of that time
    elif not header.is_log_append_time:
        max_timestamp = _max_timestamp(header, payload, select(spans.starts, stays))
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


def _max_timestamp(header: BatchHeader, payload: bytes, starts: Iterable[int]) -> int:
    """Return the largest timestamp of the records that begin at starts.

    The result is -1 if no record has a higher one, as in Kafka.
    """
    return max(-1, *(header.base_timestamp + timestamp_delta(payload, start) for start in starts))
