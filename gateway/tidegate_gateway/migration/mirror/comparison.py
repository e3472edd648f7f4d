"""Compares two copies of a partition, batch by batch or record by record.  Pure.

A batch's CRC covers all bytes after it, but not the base offset and the leader epoch.  So batches
with equal headers and equal, correct CRCs are equal.  Compaction at the source may take records out
of a batch that was already copied, so records can be compared instead of batches.

The caller limits a comparison to the offsets between both starts and ends (verifying.py).  There, a
batch or record that one side lacks is a difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidegate_protocol.batches import HEADER_BYTES, BatchHeader, crc_matches, read_header
from tidegate_protocol.errors import InvalidBatch, InvalidReason
from tidegate_protocol.records import Record, decode_records

SOURCE: Final = 0
COPY: Final = 1
_NAMES: Final = ("the source", "the copy")
MAX_DECOMPRESSED_BYTES: Final = 256 << 20
MAX_RECORDS: Final = 1_000_000
"""The most records of a compared batch: they are held in memory, hundreds of bytes each."""


class Seen(NamedTuple):
    """The compared facts of a batch."""

    offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    crc: int
    size: int


@dataclass(slots=True)
class Comparison:
    """The comparison of a partition's offsets from `start` up to `end`.

    by_record: compare records, not batches.  items, size_bytes: compared so far.  difference: the
      first difference, for people; "" if there is none.
    """

    start: int
    end: int
    by_record: bool = False
    items: int = 0
    size_bytes: int = 0
    difference: str = ""
    _positions: list[int] = field(init=False, default_factory=list[int])
    _waiting: tuple[deque[Seen | Record], deque[Seen | Record]] = field(
        init=False, default_factory=lambda: (deque(), deque())
    )

    def __post_init__(self) -> None:
        """Begin both sides at the start."""
        self._positions = [self.start, self.start]

    @property
    def side(self) -> int | None:
        """Return the side to read next, SOURCE or COPY; None at the end, or after a difference."""
        behind = SOURCE if self._positions[SOURCE] <= self._positions[COPY] else COPY
        is_over = self.difference or self._positions[behind] >= self.end
        return None if is_over else behind

    def position(self, side: int) -> int:
        """Return the offset at which to read a side."""
        return self._positions[side]

    def take(self, side: int, records: memoryview) -> None:
        """Add the records of a fetch at the side's position, and compare.

        An empty answer means that the side has no further batches.
        """
        at = self._positions[side]
        try:
            for data, header in _whole_batches(records):
                if header.last_offset < at or header.base_offset >= self.end:
                    continue
                if not crc_matches(data, 0, header):
                    base = header.base_offset
                    self.difference = f"offset {base}: {_NAMES[side]}'s batch has a wrong CRC"
                    break
                self._waiting[side].extend(self._items(data, header))
                self._positions[side] = header.last_offset + 1
        except InvalidBatch as error:
            self.difference = f"offset {at}: {error}"
        if self._positions[side] == at:
            self._positions[side] = self.end
        self._compare()

    def _items(self, data: memoryview, header: BatchHeader) -> Iterable[Seen | Record]:
        # a gateway returns such a batch if it has no records up to the end
        if header.record_count == 0:
            return ()
        if not self.by_record:
            self.size_bytes += header.size_bytes
            return [_seen(header)]
        if header.is_control:
            return ()
        if header.record_count > MAX_RECORDS:
            text = f"a batch of {header.record_count} records is too large to compare its records"
            raise InvalidBatch(InvalidReason.INVALID_RECORD, text)
        found = decode_records(data, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
        self.size_bytes += header.size_bytes
        return [each for each in found if self.start <= each.offset < self.end]

    def _compare(self) -> None:
        source, copy = self._waiting
        while source and copy and not self.difference:
            theirs, own = source[0], copy[0]
            if theirs == own:
                self.items += 1
                source.popleft()
                copy.popleft()
            elif theirs.offset != own.offset:
                self._lacks(COPY if theirs.offset < own.offset else SOURCE)
            else:
                self.difference = f"offset {own.offset}: {_fields(theirs, own)} differ"
        if not self.difference and self.side is None and (source or copy):
            self._lacks(COPY if source else SOURCE)

    def _lacks(self, side: int) -> None:
        offset = self._waiting[1 - side][0].offset
        what = "record" if self.by_record else "batch"
        self.difference = f"offset {offset}: {_NAMES[side]} lacks the {what}"


def _whole_batches(records: memoryview) -> Iterable[tuple[memoryview, BatchHeader]]:
    at = 0
    while len(records) - at >= HEADER_BYTES:
        header = read_header(records, at)
        if header.size_bytes < HEADER_BYTES or at + header.size_bytes > len(records):
            return
        yield records[at : at + header.size_bytes], header
        at += header.size_bytes


def _seen(header: BatchHeader) -> Seen:
    return Seen(
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.attributes,
        header.crc,
        header.size_bytes,
    )


def _fields(theirs: Seen | Record, own: Seen | Record) -> str:
    pairs = zip(theirs._fields, theirs, own, strict=True)
    return ", ".join(name for name, their, mine in pairs if their != mine)
