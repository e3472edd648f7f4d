"""Groups adjacent runs, so that a repair proposes each group as one item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from tidegate_coordination.rules.records.skips import Unreadable
from tidegate_coordination.state.records.runs import RunRow

MAX_STRETCH_RUNS: Final = 500


class Placed(Protocol):
    """A run, and the number of its partition."""

    @property
    def partition(self) -> int:
        """Return the partition's number."""
        ...

    @property
    def row(self) -> RunRow:
        """Return the run."""
        ...


Some = TypeVar("Some", bound=Placed)


def stretches(runs: Sequence[Some]) -> list[list[Some]]:
    """Return groups of adjacent runs; the runs must be in the order of offsets."""
    found: list[list[Some]] = []
    for each in runs:
        if found and _follows(found[-1], each):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def _follows(stretch: Sequence[Placed], each: Placed) -> bool:
    last = stretch[-1]
    return (
        len(stretch) < MAX_STRETCH_RUNS
        and last.partition == each.partition
        and last.row.next_offset == each.row.base_offset
    )


def proposed(stretch: Sequence[Placed]) -> Unreadable:
    """Return a stretch in the form that proposals take."""
    return Unreadable(stretch[0].partition, tuple(each.row for each in stretch))
