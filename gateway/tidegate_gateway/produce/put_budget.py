"""Limits the PUTs to the store by a token bucket; large objects need no tokens.  Pure.

A seal costs max(0, 1 - size / efficient_bytes) tokens; the bucket refills with tokens_per_second
and holds a minute of them.  So an idle gateway acknowledges after one PUT, a busy one fills
objects, and only a long stream of small requests is slowed
(docs/architecture.md, "When an object is sealed").
"""

from __future__ import annotations

from dataclasses import dataclass

HELD_SECONDS = 60.0


@dataclass(slots=True)
class PutBudget:
    """tokens_per_second: 0 for no budget, since requests cost nothing.  Times are in seconds."""

    tokens_per_second: float
    efficient_bytes: int
    _tokens: float = 0.0
    _refilled_at: float | None = None

    @property
    def is_limited(self) -> bool:
        """Return whether there is a budget."""
        return self.tokens_per_second > 0

    def cost(self, size_bytes: int) -> float:
        """Return the tokens that sealing an object of that size costs."""
        if not self.tokens_per_second:
            return 0.0
        return max(0.0, 1.0 - size_bytes / self.efficient_bytes)

    def wait_seconds(self, size_bytes: int, now: float) -> float:
        """Return how long to wait until the budget allows the seal; 0 when it does."""
        if not self.tokens_per_second:
            return 0.0
        missing = self.cost(size_bytes) - self._refill(now)
        return missing / self.tokens_per_second if missing > 0 else 0.0

    def take(self, size_bytes: int, now: float) -> None:
        """Take the tokens of a seal.  A seal at the end of linger may make the number negative."""
        if not self.tokens_per_second:
            return
        self._refill(now)
        self._tokens -= self.cost(size_bytes)

    def _refill(self, now: float) -> float:
        full = HELD_SECONDS * self.tokens_per_second
        if self._refilled_at is None:
            self._tokens = full
        else:
            earned = (now - self._refilled_at) * self.tokens_per_second
            self._tokens = min(full, self._tokens + earned)
        self._refilled_at = now
        return self._tokens
