"""The pauses before an ended process is restarted.  Pure."""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 1.0
MOST_SECONDS: Final = 30.0
CALM_SECONDS: Final = 60.0


class Restarts:
    """Increases the pause after each end; once a process serves for CALM_SECONDS, resets it."""

    def __init__(self, first_pause: float = FIRST_SECONDS) -> None:
        self.count = 0
        self._first = self._pause = first_pause

    def pause_after(self, served_seconds: float) -> float:
        """Return the seconds until the next start.

        Args:
          served_seconds: how long the ended process had served; 0 if it never served.
        """
        if served_seconds >= CALM_SECONDS:
            self._pause = self._first
        pause, self._pause = self._pause, min(2 * self._pause, MOST_SECONDS)
        self.count += 1
        return pause
