"""Estimates how much of a quota clients would use here without a limit.  Pure; times are in ms.

The use alone does not show this demand, since a throttled client sends nothing.  So while clients
wait for this quota, the demand is the whole quota.  Otherwise it is the mean of the latest use.
When the share suffices, clients stop waiting, and the mean of their use is soon known.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LOOKS: Final = 10
"""The demand is the mean use over so many looks, so it falls slowly."""
LEAST_MS: Final = 5_000
"""The mean is taken over at least this time: one large request is not much demand."""
HEADROOM: Final = 1.05


class Demand:
    """See the module's head.  begin_ms: the bucket's first use, or the first use after a pause."""

    def __init__(self, begin_ms: int) -> None:
        self._looked_ms = begin_ms
        self._waits_until_ms = begin_ms
        self._passed = 0.0
        self._before: deque[tuple[float, int]] = deque(maxlen=LOOKS)

    def note_passed(self, amount: float) -> None:
        """Count an amount of use; a negative amount takes back an earlier one."""
        self._passed += amount

    def note_waiting(self, until_ms: int) -> None:
        """Note that a client waits until a time."""
        self._waits_until_ms = max(self._waits_until_ms, until_ms)

    def look(self, quota: float, now_ms: int) -> float:
        """Return the demand in a second, at most the quota; 0 if there was none for LOOKS looks."""
        waited = self._waits_until_ms > self._looked_ms
        self._before.append((self._passed, now_ms - self._looked_ms))
        self._passed, self._looked_ms = 0.0, now_ms
        if waited:
            return quota
        span_ms = max(sum(each for _, each in self._before), LEAST_MS)
        passed = max(sum(each for each, _ in self._before), 0.0)
        return min(passed * 1_000 / span_ms * HEADROOM, quota)
