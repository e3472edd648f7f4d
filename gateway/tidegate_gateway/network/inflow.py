"""Notes when produce requests arrive, for the pace of seals (seal_pace.py).

Times are on trio's clock.
"""

from __future__ import annotations

from collections.abc import Callable


class Inflow:
    """Counts the produce requests that connections are receiving.

    whole_at: when a connection last received the end of a request.  partial_at: when a connection
    last received a part of a request.  Both are -1.0 at first.  on_end: called when the last
    request under way ends.
    """

    __slots__ = ("_under_way", "on_end", "partial_at", "whole_at")

    def __init__(self) -> None:
        self._under_way = 0
        self.on_end: Callable[[], None] = _nobody
        self.partial_at = -1.0
        self.whole_at = -1.0

    @property
    def is_under_way(self) -> bool:
        """Whether a connection has received a part of a request, but not all of it."""
        return self._under_way > 0

    def begin(self) -> None:
        """Count a request of which a part, but not all, was received."""
        self._under_way += 1

    def end(self) -> None:
        """Stop counting a request that was received to its end, or never will be."""
        self._under_way -= 1
        if not self._under_way:
            self.on_end()


def _nobody() -> None:
    pass
