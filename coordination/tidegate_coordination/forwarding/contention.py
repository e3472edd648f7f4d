"""When a gateway that can append hands its proposals over to another gateway.

With many writers, a log is fastest if each gateway appends for itself, as long as they seldom race.
A gateway with several lost appends in a row is too slow for the number of writers.  It hands its
proposals over.  All such gateways choose the same leader, so fewer gateways race
(docs/architecture.md, "Forwarding").  After a pause the gateway appends by itself again.  If it
soon hands over again, the next pause is twice as long.
"""

from __future__ import annotations

from typing import Final

import trio

ENOUGH: Final = 3
FIRST_SECONDS: Final = 10.0
MOST_DOUBLINGS: Final = 5


class Contention:
    """The races of one gateway.

    enough: hand over after this many lost appends in a row.  handovers: the number of handovers,
    for metrics.
    """

    def __init__(self, enough: int = ENOUGH) -> None:
        self.handovers = 0
        self._enough = enough
        self._lost = 0
        self._doublings = 0
        self._until = float("-inf")

    @property
    def holds(self) -> bool:
        """Whether another gateway should append for this one now."""
        return trio.current_time() < self._until

    def won(self) -> None:
        """Note an append that got its position."""
        self._lost = 0

    def lost(self) -> bool:
        """Note a lost race; return whether the gateway should hand over."""
        self._lost += 1
        if self._lost < self._enough:
            return False
        self._lost = 0
        return True

    def leave_it(self) -> None:
        """Hand over: begin the pause in which another gateway appends."""
        self.handovers += 1
        now = trio.current_time()
        was_too_early = now < self._until + self._seconds
        self._doublings = min(self._doublings + 1, MOST_DOUBLINGS) if was_too_early else 0
        self._until = now + self._seconds

    @property
    def _seconds(self) -> float:
        return FIRST_SECONDS * float(1 << self._doublings)
