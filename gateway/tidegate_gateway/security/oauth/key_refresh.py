"""When a gateway reads an identity provider's keys again.  Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import inf
from typing import Final

MAX_MISSING: Final = 1000
MISSING_SECONDS: Final = 60.0
LEAST_SECONDS: Final = 4.0
"""Between a read and the next one for an unknown key."""


@dataclass(frozen=True, slots=True)
class RefreshTimes:
    """refresh_seconds: the interval after a successful read.

    first_pause_seconds: the wait after a failed read; it doubles with each further failure, up to
    most_pause_seconds.
    """

    refresh_seconds: float
    first_pause_seconds: float
    most_pause_seconds: float


class KeyRefresh:
    """due_at: when to read next, on the caller's clock.

    A key that a token names, and that is not known, may be new.  Each such key is looked for once
    in MISSING_SECONDS.  The read for all such keys comes at least LEAST_SECONDS after the last
    read.  So strangers cannot make the gateway ask the provider at will.
    """

    def __init__(self, times: RefreshTimes) -> None:
        self.due_at = -inf
        self._times = times
        self._pause = times.first_pause_seconds
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._read_at = -inf

    def succeeded(self, now: float) -> None:
        """Plan the next regular read."""
        self._read_at = now
        self._pause = self._times.first_pause_seconds
        self.due_at = now + self._times.refresh_seconds

    def failed(self, now: float) -> None:
        """Plan another try."""
        self._read_at = now
        self.due_at = now + self._pause
        self._pause = min(self._pause * 2, self._times.most_pause_seconds)

    def misses(self, key_id: str, now: float) -> bool:
        """Note that a key is not known; return whether a read that looks for it is due soon."""
        if self._missing.get(key_id, -inf) > now - MISSING_SECONDS:
            return False
        self._missing[key_id] = now
        self._missing.move_to_end(key_id)
        if len(self._missing) > MAX_MISSING:
            self._missing.popitem(last=False)
        self.due_at = min(self.due_at, max(now, self._read_at + LEAST_SECONDS))
        return True
