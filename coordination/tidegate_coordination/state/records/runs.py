"""The runs of one partition, which say where its batches lie; 34 bytes a run.

The marker of a transaction is a run in no object: its row holds all of it, and a reader makes the
control batch from that.  In such a row the object's number and the position hold the producer id,
and the check holds the epoch.

Rows are in offset order, appended at the end and cut at the front.  Segments replace stretches of
rows, and skips remove some.  The cut only moves an index; the columns shrink once half of them is
dead.  Base offsets are a separate column, for searches.  The other fields of a row are packed,
since they are written and read together, and a partition with few runs should cost few objects.

Numbers of objects have 40 bits: the low 32 bits in their old place, and the high 8 bits after all
other fields.  Snapshots up to format 5 omit the high bits, which are zero there.

A run ends where the next one begins, or at end_offset.  An exception is a run before a hole, where
runs were removed; the few ends of such runs are kept separately.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from ...events.cluster import RUN_COMMIT, RUN_MARKER, Run


class Marker(NamedTuple):
    """The end of a transaction in a partition."""

    producer_id: int
    epoch: int
    committed: bool
    timestamp_ms: int


class RunRow(NamedTuple):
    """One run.  next_offset: the first offset after it."""

    base_offset: int
    next_offset: int
    object_number: int
    position: int
    length: int
    max_timestamp: int
    check: int
    flags: int

    @property
    def is_marker(self) -> bool:
        """Return whether it is a transaction's marker, which lies in no object."""
        return bool(self.flags & RUN_MARKER)

    def marker(self) -> Marker:
        """Return the marker that this row holds."""
        producer_id = self.object_number << _LOW_BITS | self.position
        committed = bool(self.flags & RUN_COMMIT)
        return Marker(producer_id, self.check, committed, self.max_timestamp)


# The object number's low bits, position, length, max time stamp, check, flags, and the number's
# high bits.
_REST: Final = Struct("<IIIqIBB")
_REST_BYTES: Final = _REST.size
_FLAGS_AT: Final = _REST_BYTES - 2
_LOW_BITS: Final = 32
MARKER_BYTES: Final = 78
"""Size of a marker's control batch."""
_LOW: Final = (1 << _LOW_BITS) - 1
_pack = _REST.pack
_unpack = _REST.unpack_from


class Runs:
    """All live runs of a partition; end_offset is the first offset after the last one."""

    __slots__ = ("_base", "_ends", "_first", "_rest", "end_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self._base = array("q")
        self._rest = bytearray()
        self._first = 0
        self._ends: dict[int, int] = {}  # by base offset
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._base) - self._first

    def append(self, run: Run, object_number: int) -> None:
        """Add the next run; its base offset is at or above end_offset."""
        base_offset = run.base_offset
        if base_offset != self.end_offset and len(self):
            self._ends[self._base[-1]] = self.end_offset
        self._base.append(base_offset)
        self._rest += _pack(
            object_number & _LOW,
            run.position,
            run.length,
            run.max_timestamp,
            run.check,
            run.flags,
            object_number >> _LOW_BITS,
        )
        self.end_offset = base_offset + run.record_count

    def append_marker(self, base_offset: int, packed: bytes) -> None:
        """Add the end of a transaction, at end_offset or above.  packed: see packed_marker()."""
        if base_offset != self.end_offset and len(self):
            self._ends[self._base[-1]] = self.end_offset
        self._base.append(base_offset)
        self._rest += packed
        self.end_offset = base_offset + 1

    def __getitem__(self, index: int) -> RunRow:
        """Return the index-th live run."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        at = self._first + index
        base = self._base
        behind = base[at + 1] if at + 1 < len(base) else self.end_offset
        if self._ends:
            behind = self._ends.get(base[at], behind)
        low, position, length, timestamp, check, flags, high = _unpack(self._rest, at * _REST_BYTES)
        number = low | high << _LOW_BITS
        return RunRow(base[at], behind, number, position, length, timestamp, check, flags)

    def find(self, offset: int) -> int:
        """Return the index of the run that holds the offset, or of the next one above a gap.

        It is len() if there is no such run.
        """
        if offset >= self.end_offset:
            return len(self)
        at = bisect_right(self._base, offset, self._first) - 1
        if at < self._first:
            return 0
        is_above = bool(self._ends) and offset >= self._ends.get(self._base[at], self.end_offset)
        return at - self._first + is_above

    def index_of(self, base_offset: int) -> int | None:
        """Return the index of the run that begins at the offset."""
        at = self.index_from(base_offset)
        return at if at < len(self) and self._base[self._first + at] == base_offset else None

    def index_from(self, offset: int) -> int:
        """Return the index of the first run that begins at the offset or later, else len()."""
        return bisect_left(self._base, offset, self._first) - self._first

    def span(self, base_offset: int, next_offset: int) -> range:
        """Return the indexes of the runs that are exactly [base_offset, next_offset); empty: no
        runs are.
        """
        start, stop = self.index_of(base_offset), self.index_from(next_offset)
        if start is None or start >= stop or self[stop - 1].next_offset != next_offset:
            return range(0)
        return range(start, stop)

    def has_at(self, start: int, rows: Sequence[RunRow]) -> bool:
        """Return whether these runs are neighbours from index start on."""
        if start + len(rows) > len(self):
            return False
        return all(self[start + at] == row for at, row in enumerate(rows))

    def hole_after(self, offset: int, end: int) -> int:
        """Return where the first hole above an offset begins; `end` if none begins below that."""
        return min((each for each in self._ends.values() if offset < each < end), default=end)

    def has_flag_from(self, offset: int, flag: int) -> bool:
        """Return whether a run that begins there or later has a flag."""
        first = self._first + self.index_from(offset)
        return any(
            each & flag for each in self._rest[first * _REST_BYTES + _FLAGS_AT :: _REST_BYTES]
        )

    def first_with(self, flag: int, start: int, stop: int) -> int:
        """Return the index of the first run from start to stop that has a flag; stop if none has.

        stop: at most len().
        """
        first, behind = self._first + start, self._first + stop
        flags = self._rest[first * _REST_BYTES + _FLAGS_AT : behind * _REST_BYTES : _REST_BYTES]
        return next((start + at for at, each in enumerate(flags) if each & flag), stop)

    def merged_to(self, flag: int) -> int:
        """Return where the first run without a flag begins; end_offset if all have it."""
        flags = self._rest[self._first * _REST_BYTES + _FLAGS_AT :: _REST_BYTES]
        at = next((at for at, each in enumerate(flags) if not each & flag), len(self))
        return self._base[self._first + at] if at < len(self) else self.end_offset

    def replace(self, start: int, stop: int, rows: Sequence[RunRow]) -> list[RunRow]:
        """Replace the runs from index start to stop by other rows; return the replaced ones.

        If there are no other rows, a hole is left.
        """
        dropped = [self[index] for index in range(start, stop)]
        before = [self[start - 1]] if start else []
        first, last = self._first + start, self._first + stop
        self._base[first:last] = array("q", [row.base_offset for row in rows])
        packed = b"".join(map(_packed, rows))
        self._rest[first * _REST_BYTES : last * _REST_BYTES] = packed
        for row in dropped:
            self._ends.pop(row.base_offset, None)
        for at, row in enumerate([*before, *rows], first - len(before)):
            self._end_at(at, row.next_offset)
        return dropped

    def _end_at(self, at: int, next_offset: int) -> None:
        """Let the run at a place of the columns end at an offset."""
        if at + 1 == len(self._base):
            self.end_offset = next_offset
            self._ends.pop(self._base[at], None)
        elif self._base[at + 1] != next_offset:
            self._ends[self._base[at]] = next_offset
        else:
            self._ends.pop(self._base[at], None)

    def cut_below(self, log_start: int) -> list[RunRow]:
        """Drop the runs that lie wholly below the log start, and return them."""
        dropped: list[RunRow] = []
        while len(self) and self[0].next_offset <= log_start:
            dropped.append(self[0])
            self._ends.pop(self._base[self._first], None)
            self._first += 1
        if self._first > 64 and self._first * 2 > len(self._base):
            self._base = self._base[self._first :]
            self._rest = self._rest[self._first * _REST_BYTES :]
            self._first = 0
        return dropped

    def encode(self, *, is_wide: bool) -> object:
        """Return the live rows, column by column; then the ends of runs before holes, if any.

        is_wide: with all bits of the objects' numbers; otherwise these must fit in 32 bits.
        """
        first = self._first
        rest = self._rest[first * _REST_BYTES :] if first else self._rest
        if not is_wide:
            rest = rest[:]
            del rest[_REST_BYTES - 1 :: _REST_BYTES]
        row: list[object] = [self.end_offset, self._base[first:].tobytes(), bytes(rest)]
        return [*row, sorted(self._ends.items())] if self._ends else row

    @classmethod
    def decode(cls, row: list[Any]) -> Runs:
        """Return the runs from encode()'s answer."""
        end_offset, base, rest, *ends = row
        runs = cls(end_offset)
        runs._base.frombytes(base)
        runs._rest += rest if len(rest) == len(runs._base) * _REST_BYTES else _widened(rest)
        for pairs in ends:
            runs._ends = {base_offset: next_offset for base_offset, next_offset in pairs}
        return runs


def packed_marker(marker: Marker) -> bytes:
    """Return a marker's row without the offset; the row is the same in all partitions."""
    producer_id = marker.producer_id
    number = producer_id >> _LOW_BITS
    return _pack(
        number & _LOW,
        producer_id & _LOW,
        MARKER_BYTES,
        marker.timestamp_ms,
        marker.epoch,
        RUN_MARKER | RUN_COMMIT if marker.committed else RUN_MARKER,
        number >> _LOW_BITS,
    )


def _packed(row: RunRow) -> bytes:
    return _pack(
        row.object_number & _LOW,
        row.position,
        row.length,
        row.max_timestamp,
        row.check,
        row.flags,
        row.object_number >> _LOW_BITS,
    )


def _widened(rest: bytes) -> bytearray:
    """Return rows of a snapshot up to format 5 in the present form."""
    narrow = _REST_BYTES - 1
    wide = bytearray(len(rest) // narrow * _REST_BYTES)
    for at in range(narrow):
        wide[at::_REST_BYTES] = rest[at::narrow]
    return wide
