"""Sums over the open transactions, for metrics.  Ids without an open transaction cost nothing."""

from __future__ import annotations

from typing import NamedTuple

from .table import TransactionTable


class OpenTotals(NamedTuple):
    """oldest_ms: log time at which the oldest open transaction began; -1 for none.

    late_partitions: how many partitions have a transaction that has been open for too long.
    """

    transactions: int
    oldest_ms: int
    staged_offsets: int
    late_partitions: int


def open_totals(table: TransactionTable, late_before_ms: int) -> OpenTotals:
    """Return the sums.  late_before_ms: transactions that began before this log time are late."""
    count, oldest_ms, staged = 0, -1, 0
    late: set[int] = set()
    for started_ms, each in table.open_rows():
        count += 1
        if oldest_ms < 0 or started_ms < oldest_ms:
            oldest_ms = started_ms
        for offsets in each.groups.values():
            staged += len(offsets)
        if started_ms < late_before_ms:
            late.update(each.partitions)
    return OpenTotals(count, oldest_ms, staged, len(late))
