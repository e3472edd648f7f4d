"""Notices that this process was stopped (SIGSTOP, a paused container) and continues now.

Requests that the process then reads may be as old as the stop, and their clients may have continued
through other gateways (decision 22).  A suspended machine is not noticed, because on Linux Trio's
clock stops meanwhile.
"""

from __future__ import annotations

from typing import Final

import trio

TICK_SECONDS: Final = 1.0
ENOUGH_SECONDS: Final = 2.0
"""A tick as late as this means that the process stood still; a busy loop is seldom so late."""
AFTER_SECONDS: Final = 2.0
"""For so long after a standstill, bytes that are read may be from before it."""


class Standstill:
    """Knows whether this process stood still lately."""

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
        """Whether bytes that were read just now may be from before a standstill."""
        if self._looked_at is not None:
            self._look()  # watch() may not have run since
        return trio.current_time() < self._recent_until

    def _look(self) -> None:
        now = trio.current_time()
        before, self._looked_at = self._looked_at, now
        if before is not None and now > before + TICK_SECONDS + ENOUGH_SECONDS:
            self._recent_until = now + AFTER_SECONDS
