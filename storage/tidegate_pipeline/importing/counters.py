"""The counters of an import's WAL objects.  Pure.

The cluster state remembers each unsettled counter below the highest settled one.  So counters that
a unit did not use are given out again.  If a task that seemed dead has written an object of such a
counter meanwhile, the next task finds other bytes under that key, and its unit is done again.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from .work import ImportUnit, UnitDone

COUNTERS_A_UNIT: Final = 24


class ObjectCounters:
    """Gives counters to units."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def take(self) -> tuple[int, ...]:
        """Return the counters of a unit, rising."""
        return tuple(self._one() for _ in range(COUNTERS_A_UNIT))

    def _one(self) -> int:
        if self._free:
            return heappop(self._free)
        self._next += 1
        return self._next - 1

    def release(self, unit: ImportUnit, done: UnitDone) -> None:
        """Take back the counters that a unit did not use; its objects must be known."""
        used = {each.counter for each in done.objects}
        for counter in unit.counters:
            if counter not in used:
                heappush(self._free, counter)
