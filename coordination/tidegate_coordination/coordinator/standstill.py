"""Whether this process stood still a moment ago: it was stopped.

What it then finds on its connections may be as old as that, and the clients that sent it may have
gone on through other gateways (decision 22).  A machine that was suspended is not noticed: on Linux
Trio's clock stands still meanwhile.
"""

from __future__ import annotations

from typing import Final

import trio

TICK_SECONDS: Final = 1.0
ENOUGH_SECONDS: Final = 2.0
"""So late is a tick of a process that stood still; a busy event loop is seldom."""
AFTER_SECONDS: Final = 2.0
"""For so long afterwards what is read may be from before."""


class Standstill:
    """See the module's head."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._recent_until = float("-inf")

    async def watch(self) -> None:
        """Look at the clock again and again; forever."""
        while True:
            self._look()
            await trio.sleep(TICK_SECONDS)

    @property
    def is_recent(self) -> bool:
        """Tell whether what was read just now may be old."""
        if self._looked_at is not None:
            self._look()  # the watch itself may have its turn later
        return trio.current_time() < self._recent_until

    def _look(self) -> None:
        now = trio.current_time()
        before, self._looked_at = self._looked_at, now
        if before is not None and now > before + TICK_SECONDS + ENOUGH_SECONDS:
            self._recent_until = now + AFTER_SECONDS
