"""When to poll for other gateways' entries: soon at first, less and less often while none come."""

from math import inf
from typing import Final

_FIRST_SECONDS: Final = 0.05
_LAST_SECONDS: Final = 1.0


class Pace:
    """Each look is a request; times are in seconds of one clock."""

    def __init__(self) -> None:
        self._pause_seconds = _FIRST_SECONDS
        self.due_at = -inf

    def looked(self, now: float) -> None:
        """Note that a read looked for entries."""
        self.due_at = now + self._pause_seconds

    def looked_in_vain(self, now: float) -> None:
        self.looked(now)
        self._pause_seconds = min(2 * self._pause_seconds, _LAST_SECONDS)

    def grew(self, now: float) -> None:
        self._pause_seconds = _FIRST_SECONDS
        self.due_at = now + _FIRST_SECONDS
