"""The runs of a partition that an operator skipped, and that can be brought back; see decision 9.

Their objects stay.  Kept runs are dropped for good once the log start moves past them, their topic
is deleted, or an operator gives them up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...events.cluster import RUN_SEGMENT
from .runs import RunRow, Runs


class KeptRuns:
    """The kept runs of one partition, in offset order; none overlaps another, or a live one.

    floor: the log start without the effect of skips.  A skip at the front moves the log start only
    until its runs are back.
    """

    __slots__ = ("_runs", "floor")

    def __init__(self, floor: int, runs: Runs | None = None) -> None:
        self.floor = floor
        self._runs = runs if runs is not None else Runs()

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[RunRow]:
        return (self._runs[at] for at in range(len(self._runs)))

    def has(self, rows: Sequence[RunRow]) -> bool:
        """Return whether it holds these runs, at least one, as neighbours."""
        start = self._runs.index_of(rows[0].base_offset)
        return start is not None and self._runs.has_at(start, rows)

    def add(self, rows: Sequence[RunRow]) -> None:
        """Add runs; runs that are kept already may lie between them."""
        for row in rows:
            at = self._runs.index_from(row.base_offset)
            self._runs.replace(at, at, (row,))

    def between(self, base_offset: int, next_offset: int) -> list[RunRow]:
        """Return the runs that are exactly [base_offset, next_offset); none: no runs are."""
        return [self._runs[at] for at in self._runs.span(base_offset, next_offset)]

    def take(self, base_offset: int, next_offset: int) -> list[RunRow]:
        """Remove and return the runs that are exactly [base_offset, next_offset)."""
        span = self._runs.span(base_offset, next_offset)
        return self._runs.replace(span.start, span.stop, ())

    def cut_below(self, log_start: int) -> list[RunRow]:
        """Drop and return the kept runs below a log start that something else than a skip moved."""
        self.floor = max(self.floor, log_start)
        return self._runs.cut_below(log_start)

    def merged_to(self, offset: int) -> int:
        """Return where the first run that is in no segment begins, or the given offset if lower."""
        at = self._runs.merged_to(RUN_SEGMENT)
        return min(at, offset) if at < self._runs.end_offset else offset

    def encode(self, *, is_wide: bool) -> object:
        """Return the kept runs as builtins."""
        return [self.floor, self._runs.encode(is_wide=is_wide)]

    @classmethod
    def decode(cls, row: Sequence[Any]) -> KeptRuns:
        """Return the runs that encode() encoded."""
        floor, runs = row
        return cls(floor, Runs.decode(runs))
