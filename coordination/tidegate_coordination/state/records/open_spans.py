"""The open transactions of a partition: 16 bytes each, the one that began first at the front."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from ..long_values import SLICE_ROWS, LongList

_SLICE: Final = 2 * SLICE_ROWS


class OpenSpans:
    """First offsets by producer id, in the order of the offsets.

    Transactions end roughly in the order in which they begin, so a search for one begins at the
    front.
    """

    __slots__ = ("_flat",)

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._flat = array("q")  # producer id, first offset, producer id, first offset
        for producer_id, first_offset in pairs:
            self.begin(producer_id, first_offset)

    def __len__(self) -> int:
        return len(self._flat) >> 1

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._flat[::2]

    @property
    def lowest(self) -> int:
        """Return the first offset of the oldest open transaction; there must be one."""
        return self._flat[1]

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add the transaction of a producer that has none."""
        flat = self._flat
        at = len(flat)
        while at and flat[at - 1] > first_offset:
            at -= 2
        flat[at:at] = array("q", (producer_id, first_offset))

    def end(self, producer_id: int) -> int | None:
        """Remove the transaction of a producer; return where it began, or None if there is none."""
        flat = self._flat
        at = 0
        if not flat or flat[0] != producer_id:
            try:
                at = flat[::2].index(producer_id) * 2
            except ValueError:
                return None
        first_offset = flat[at + 1]
        del flat[at : at + 2]
        return first_offset

    def encode(self) -> list[object] | LongList:
        """Return the present pairs: a long list in slices."""
        flat = self._flat[:]
        slices = (
            list(zip(flat[at : at + _SLICE : 2], flat[at + 1 : at + _SLICE : 2], strict=True))
            for at in range(0, len(flat), _SLICE)
        )
        if len(flat) > _SLICE:
            return LongList(len(self), slices)
        return [pair for pairs in slices for pair in pairs]

    def as_dict(self) -> dict[int, int]:
        """Return first offsets by producer id."""
        return dict(zip(self._flat[::2], self._flat[1::2], strict=True))
