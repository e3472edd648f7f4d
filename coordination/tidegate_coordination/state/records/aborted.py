"""The aborted transactions of a partition: 32 bytes each.

A reader of committed records drops the batches of these producers from the first to the last
offset, which is that of the abort's marker (KIP-98, Kafka's transaction index).  Rows are in the
order of their markers, so `last` and `stable` rise.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Any, Final, NamedTuple

_COLUMNS: Final = 4


class AbortedRow(NamedTuple):
    """stable: the last stable offset once this transaction had ended."""

    producer_id: int
    first: int
    last: int
    stable: int


class Aborted:
    """The rows of one partition."""

    __slots__ = ("_first", "_last", "_producer", "_stable")

    def __init__(self) -> None:
        self._producer = array("q")
        self._first = array("q")
        self._last = array("q")
        self._stable = array("q")

    def __len__(self) -> int:
        return len(self._last)

    def __getitem__(self, at: int) -> AbortedRow:
        """Return the row at an index, in the order of the markers."""
        return AbortedRow(self._producer[at], self._first[at], self._last[at], self._stable[at])

    def append(self, producer_id: int, first: int, last: int, stable: int) -> None:
        """Add the row of the latest marker."""
        self._producer.append(producer_id)
        self._first.append(first)
        self._last.append(last)
        self._stable.append(stable)

    def between(self, start: int, end: int) -> list[AbortedRow]:
        """Return the rows that a reader of [start, end) needs.

        A transaction that ended below `start` must not be among them: the reader would drop later
        records of its producer.
        """
        span = self._span(start, end)
        return [self[at] for at in span if self._first[at] < end]

    def named(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return first offset and producer id of the rows of between(), at a fifth of the cost."""
        span = self._span(start, end)
        rows = slice(span.start, span.stop)
        pairs = zip(self._first[rows], self._producer[rows], strict=True)
        return [pair for pair in pairs if pair[0] < end]

    def _span(self, start: int, end: int) -> range:
        """Return the range of these rows; some of them may begin at `end` or later."""
        first = bisect_left(self._last, start)
        # After the first row whose `stable` reaches `end`, no row begins below `end`.
        last = bisect_left(self._stable, end, first)
        return range(first, min(last + 1, len(self._last)))

    def drop_below(self, offset: int) -> None:
        """Forget the transactions that ended below an offset."""
        count = bisect_left(self._last, offset)
        if count:
            for column in (self._producer, self._first, self._last, self._stable):
                del column[:count]

    def encode(self) -> object:
        """Return all rows, column by column."""
        columns = (self._producer, self._first, self._last, self._stable)
        return [column.tobytes() for column in columns]

    @classmethod
    def decode(cls, columns: list[Any]) -> Aborted:
        """Return the table that encode() encoded."""
        decoded = cls()
        names = (decoded._producer, decoded._first, decoded._last, decoded._stable)
        for column, data in zip(names, columns, strict=True):
            column.frombytes(data)
        return decoded
