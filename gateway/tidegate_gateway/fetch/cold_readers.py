"""The positions of the consumers that read old records of partitions.  Pure.

The cache evicts first the records that all known readers have passed.  The more readers there are,
the less the gateway reads ahead for each.  A reader without a request for ACTIVE_SECONDS counts as
stopped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, NamedTuple

ACTIVE_SECONDS: Final = 10.0
# The most readers of all partitions together.  Beyond it, the reader that was silent longest is
# forgotten.
MAX_READERS: Final = 100_000


class _Reader(NamedTuple):
    number: int
    reader: Hashable


class _Place(NamedTuple):
    offset: int
    seen_at: float


class ColdReaders:
    """See the module's head.  A consumer of two partitions is two readers."""

    def __init__(self) -> None:
        # Readers in the order of their last requests.
        self._places: OrderedDict[_Reader, _Place] = OrderedDict()
        self._offsets: dict[int, dict[Hashable, int]] = {}
        self._least: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def partitions(self) -> int:
        """Return how many partitions have readers."""
        return len(self._offsets)

    def note(self, number: int, reader: Hashable, offset: int, now: float) -> tuple[int, int]:
        """Note the next offset of a reader of a partition.  Return the range of offsets that all
        its readers have passed since the last call.
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
        """Forget stopped readers, but never the reader that was just noted."""
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
