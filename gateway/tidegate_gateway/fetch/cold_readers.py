"""How far those are who read what lies behind the ends of partitions.  Pure.

What all of them have is needed by nobody, as far as is known here; and how many they are says how
much may be read ahead of each.  One that asked for nothing for ACTIVE_SECONDS reads no more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, NamedTuple

ACTIVE_SECONDS: Final = 10.0
# Of all partitions together; the one that was heard of longest ago is forgotten.
MAX_READERS: Final = 100_000


class _Reader(NamedTuple):
    number: int
    reader: Hashable


class _Place(NamedTuple):
    offset: int
    seen_at: float


class ColdReaders:
    """See the module's head.  One who reads two partitions counts as two."""

    def __init__(self) -> None:
        # In the order in which they were heard of.
        self._places: OrderedDict[_Reader, _Place] = OrderedDict()
        self._offsets: dict[int, dict[Hashable, int]] = {}
        self._least: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def partitions(self) -> int:
        """Return how many partitions are read."""
        return len(self._offsets)

    def note(self, number: int, reader: Hashable, offset: int, now: float) -> tuple[int, int]:
        """Take note of where a reader of a partition goes on.

        Return the offsets between which all its readers have passed since the last time.
        """
        key = _Reader(number, reader)
        self._places[key] = _Place(offset, now)
        self._places.move_to_end(key)
        offsets = self._offsets.setdefault(number, {})
        offsets[reader] = offset
        self._forget(now)
        least = min(offsets.values())
        before = self._least.get(number, least)
        self._least[number] = least
        return before, least

    def _forget(self, now: float) -> None:
        """Forget who reads no more; never the one just noted."""
        places = self._places
        while len(places) > 1:
            key, place = next(iter(places.items()))
            if place.seen_at >= now - ACTIVE_SECONDS and len(places) <= MAX_READERS:
                return
            del places[key]
            offsets = self._offsets[key.number]
            del offsets[key.reader]
            if not offsets:
                del self._offsets[key.number], self._least[key.number]
