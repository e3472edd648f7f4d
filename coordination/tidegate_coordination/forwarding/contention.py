"""When a gateway that may append by itself had better leave that to another.

A log that takes many writers is fastest when each appends for itself, as long as they seldom meet.
Whoever loses several races in a row is too slow among too many: it hands its proposals over, to the
gateway that all who do so choose, so that fewer race (docs/architecture.md, "Forwarding").  After a
while it tries by itself again; the while doubles each time that soon proves too early.
"""

from __future__ import annotations

from typing import Final

import trio

ENOUGH: Final = 3
FIRST_SECONDS: Final = 10.0
MOST_DOUBLINGS: Final = 5


class Contention:
    """The races of one gateway.

    enough: how many it loses in a row.  handovers: how often it left it to others, for metrics.
    """

    def __init__(self, enough: int = ENOUGH) -> None:
        self.handovers = 0
        self._enough = enough
        self._lost = 0
        self._doublings = 0
        self._until = float("-inf")

    @property
    def holds(self) -> bool:
        """Tell whether another one should append."""
        return trio.current_time() < self._until

    def won(self) -> None:
        """Note an append that came first."""
        self._lost = 0

    def lost(self) -> bool:
        """Note one that did not; True where that was one too many."""
        self._lost += 1
        if self._lost < self._enough:
            return False
        self._lost = 0
        return True

    def leave_it(self) -> None:
        """Begin to leave it to another."""
        self.handovers += 1
        now = trio.current_time()
        was_too_early = now < self._until + self._seconds
        self._doublings = min(self._doublings + 1, MOST_DOUBLINGS) if was_too_early else 0
        self._until = now + self._seconds

    @property
    def _seconds(self) -> float:
        return FIRST_SECONDS * float(1 << self._doublings)
