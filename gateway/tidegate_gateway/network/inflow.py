"""When produce requests come in, for the pace of seals (seal_pace.py).  Times are trio's."""

from __future__ import annotations

from collections.abc import Callable


class Inflow:
    """What the connections tell of produce requests.

    whole_at: when a request was last received to its end.  partial_at: when a part was.
    on_end: called when no request is under way any more.
    """

    __slots__ = ("_under_way", "on_end", "partial_at", "whole_at")

    def __init__(self) -> None:
        self._under_way = 0
        self.on_end: Callable[[], None] = _nobody
        self.partial_at = -1.0
        self.whole_at = -1.0

    @property
    def is_under_way(self) -> bool:
        """Tell whether a request has begun and not ended."""
        return self._under_way > 0

    def begin(self) -> None:
        """The first part of a request was received, and not all of it."""
        self._under_way += 1

    def end(self) -> None:
        """It was received to its end, or will never be."""
        self._under_way -= 1
        if not self._under_way:
            self.on_end()


def _nobody() -> None:
    pass
