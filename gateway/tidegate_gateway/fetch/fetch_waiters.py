"""Fetches that wait for data, woken by the fold of the metadata log.  No task polls.  A waiting
fetch registers the end that it has seen of each partition.  When a partition grows, its new bytes
count.  The fetch wakes once they may make up its min_bytes, or when one of its topics is deleted.
Looking and registering happen without a checkpoint between them, so no commit can slip through.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from tidegate_coordination.state.records.partition_table import PartitionTable
from tidegate_coordination.state.records.partitions import Partition


class _Waiter:
    """One fetch; seen: partition number -> the end it saw."""

    __slots__ = ("event", "is_committed_only", "missing_bytes", "seen")

    def __init__(
        self, seen: Mapping[int, int], missing_bytes: int, *, is_committed_only: bool
    ) -> None:
        self.seen = dict(seen)
        self.missing_bytes = missing_bytes
        self.is_committed_only = is_committed_only
        self.event = trio.Event()

    def on_change(self, number: int, partition: Partition | None) -> None:
        """Count new bytes; wake the fetch when there may be enough."""
        if partition is None:
            self.event.set()
            return
        seen = self.seen[number]
        end = partition.last_stable_offset if self.is_committed_only else partition.next_offset
        if end <= seen:
            return
        # Records that are in no run have no size before they are read: `__consumer_offsets`.
        if self.missing_bytes > 1 and len(partition.runs):
            self.missing_bytes -= _grown_bytes(partition, seen, end)
            self.seen[number] = end
            if self.missing_bytes > 0:
                return
        self.event.set()


class FetchWaiters:
    """All waiting fetches of a gateway, by partition number."""

    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions
        # A dict of waiters, not a set: they wake in the order of their arrival.
        self._by_number: dict[int, dict[_Waiter, None]] = {}

    def __len__(self) -> int:
        """Return the number of partitions that fetches wait for."""
        return len(self._by_number)

    def on_change(self, touched: set[int]) -> None:
        """Wake the fetches of the changed partitions; a listener of the coordinator."""
        for number in sorted(touched & self._by_number.keys()):
            partition = self._partitions.get(number)
            for waiter in self._by_number[number]:
                if not waiter.event.is_set():
                    waiter.on_change(number, partition)

    def wake_all(self) -> None:
        """Wake all fetches, so that each looks again."""
        for waiters in self._by_number.values():
            for waiter in waiters:
                waiter.event.set()

    async def wait(
        self,
        seen: Mapping[int, int],
        missing_bytes: int,
        deadline: float,
        *,
        is_committed_only: bool = False,
    ) -> None:
        """Return when missing_bytes more may be there, a topic is gone, or the deadline passed.

        Args:
          seen: partition number -> end (high watermark or LSO) that the caller looked at.
          deadline: trio's time.
        """
        waiter = _Waiter(seen, missing_bytes, is_committed_only=is_committed_only)
        for number in waiter.seen:
            self._by_number.setdefault(number, {})[waiter] = None
        try:
            with trio.move_on_at(deadline):
                await waiter.event.wait()
        finally:
            self._forget(waiter)

    def _forget(self, waiter: _Waiter) -> None:
        for number in waiter.seen:
            waiters = self._by_number[number]
            del waiters[waiter]
            if not waiters:
                del self._by_number[number]


def _grown_bytes(partition: Partition, seen: int, end: int) -> int:
    """Return the bytes of the runs after an offset."""
    runs = partition.runs
    total = 0
    for index in range(len(runs) - 1, -1, -1):
        row = runs[index]
        if row.base_offset < seen:
            if row.next_offset > seen:
                total += row.length  # a segment replaced the newer runs
            break
        if row.base_offset < end:
            total += row.length
    return total
