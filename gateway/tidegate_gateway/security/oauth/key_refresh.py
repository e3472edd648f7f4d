"""When a gateway reads an identity provider's keys again.  Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import inf
from typing import Final

MAX_MISSING: Final = 16
MISSING_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class RefreshTimes:
    """refresh_seconds: between successes.  first_pause_seconds: after a failure; it then doubles up
    to most_pause_seconds.
    """

    refresh_seconds: float
    first_pause_seconds: float
    most_pause_seconds: float


class KeyRefresh:
    """due_at: when to read next, on the caller's clock.

    A key that a token names and that is not known may be new.  It is looked for once in
    MISSING_SECONDS, so that strangers' tokens cannot have the provider asked at will: of different
    keys at most MAX_MISSING.
    """

    def __init__(self, times: RefreshTimes) -> None:
        self.due_at = -inf
        self._times = times
        self._pause = times.first_pause_seconds
        self._missing: OrderedDict[str, float] = OrderedDict()

    def succeeded(self, now: float) -> None:
        """Plan the next regular read."""
        self._pause = self._times.first_pause_seconds
        self.due_at = now + self._times.refresh_seconds

    def failed(self, now: float) -> None:
        """Plan another try."""
        self.due_at = now + self._pause
        self._pause = min(self._pause * 2, self._times.most_pause_seconds)

    def misses(self, key_id: str, now: float) -> bool:
        """Note that a key is not known; return whether it is to be looked for at once."""
        while self._missing and next(iter(self._missing.values())) <= now - MISSING_SECONDS:
            self._missing.popitem(last=False)
        if key_id in self._missing or len(self._missing) == MAX_MISSING:
            return False
        self._missing[key_id] = now
        self.due_at = min(self.due_at, now)
        return True
