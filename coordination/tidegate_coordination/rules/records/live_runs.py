"""Checks that the runs of an earlier view are still those of a partition."""

from __future__ import annotations

from collections.abc import Sequence

from ...state.records.partitions import Partition
from ...state.records.runs import RunRow


def are_live(partition: Partition, start: int, rows: Sequence[RunRow]) -> bool:
    """Return whether the runs are unchanged neighbours from index start on."""
    runs = partition.runs
    if start + len(rows) > len(runs):
        return False
    return all(runs[start + at] == row for at, row in enumerate(rows))
