"""Fetches that wait for data; new entries of the metadata log wake them.  No task polls.

A waiting fetch registers the end offset of each partition that it has seen.  When a partition
grows, its new bytes are counted.  The fetch wakes when the new bytes may suffice for its min_bytes,
or when one of its topics is deleted.  There is no checkpoint between the look at a partition and
the registration, so the fetch misses no commit.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from tidegate_coordination.state.records.partition_table import PartitionTable
from tidegate_coordination.state.records.partitions import Partition


class _Waiter:
    """A waiting fetch.  seen: partition number -> the end offset that the fetch has seen."""

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
        # `__consumer_offsets` has no runs, and its records have no size before they are made.
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
        """Wake the fetches of the changed partitions; the coordinator calls this."""
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
        """Wait for missing_bytes of further records, the deletion of a topic, or the deadline.

        Args:
          seen: partition number -> end (high watermark or LSO) that the caller looked at.
          deadline: on trio's clock.
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
    """Return the size of the runs from one offset to another."""
    runs = partition.runs
    total = 0
    for index in range(len(runs) - 1, -1, -1):
        row = runs[index]
        if row.base_offset < seen:
            if row.next_offset > seen:
                # a segment has replaced the runs after `seen`, and begins before it
                total += row.length
            break
        if row.base_offset < end:
            total += row.length
    return total
