"""The runs of one partition: where its batches lie, in columns, 33 bytes a run.

Rows are in offset order and only ever appended at the end and cut at the front.  The cut only moves
an index; the arrays shrink once half of them is dead.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Any, NamedTuple


class RunRow(NamedTuple):
    """One run.  next_offset: the first offset behind it."""

    base_offset: int
    next_offset: int
    object_number: int
    position: int
    length: int
    max_timestamp: int
    check: int
    flags: int


_COLUMNS = "qIIIqIB"


class Runs:
    """All live runs of a partition; end_offset is the first offset behind the last one."""

    __slots__ = ("_columns", "_first", "end_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self._columns: tuple[array[int], ...] = tuple(array(code) for code in _COLUMNS)
        self._first = 0
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._columns[0]) - self._first

    def append(self, row: RunRow) -> None:
        """Add the next run; its base offset is at or above end_offset."""
        base, objects, positions, lengths, stamps, checks, flags = self._columns
        base.append(row.base_offset)
        objects.append(row.object_number)
        positions.append(row.position)
        lengths.append(row.length)
        stamps.append(row.max_timestamp)
        checks.append(row.check)
        flags.append(row.flags)
        self.end_offset = row.next_offset

    def __getitem__(self, index: int) -> RunRow:
        """Return the index-th live run."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        at = self._first + index
        base, objects, positions, lengths, stamps, checks, flags = self._columns
        behind = base[at + 1] if at + 1 < len(base) else self.end_offset
        return RunRow(
            base[at],
            behind,
            objects[at],
            positions[at],
            lengths[at],
            stamps[at],
            checks[at],
            flags[at],
        )

    def find(self, offset: int) -> int:
        """Return the index of the run that holds the offset, or of the next one above a gap."""
        return max(bisect_right(self._columns[0], offset, self._first) - 1 - self._first, 0)

    def cut_below(self, log_start: int) -> list[RunRow]:
        """Drop the runs that lie wholly below the log start, and return them."""
        dropped: list[RunRow] = []
        while len(self) and self[0].next_offset <= log_start:
            dropped.append(self[0])
            self._first += 1
        if self._first > 64 and self._first * 2 > len(self._columns[0]):
            self._columns = tuple(column[self._first :] for column in self._columns)
            self._first = 0
        return dropped

    def encode(self) -> object:
        """Return the live rows, column by column."""
        columns = [column[self._first :].tobytes() for column in self._columns]
        return [self.end_offset, *columns]

    @classmethod
    def decode(cls, row: list[Any]) -> Runs:
        """Return what encode() was called on."""
        runs = cls(row[0])
        for column, data in zip(runs._columns, row[1:], strict=True):
            column.frombytes(data)
        return runs
