"""Rates as Kafka samples them, and how long a client that is above its quota must wait.

Times are whole milliseconds of any monotonic clock.  A rate keeps the sums of up to `samples`
windows.  The first value after the end of a window begins the next one.  The rate is the sum of all
windows, divided by the time since the oldest one began, or by the length of `samples - 1` windows
if that is longer.  So a silent client may use its quota of `samples - 1` windows at once (KIP-13,
KIP-219).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

MAX_THROTTLE_MS: Final = 2**31 - 1
"""The largest value of throttle_time_ms."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Kafka's quota.window.num and quota.window.size.seconds, or controller.quota.window.*.

    samples: at least 1.  window_ms: the length of a window.
    """

    samples: int = 11
    window_ms: int = 1_000

    @property
    def burst_seconds(self) -> float:
        """How many seconds' worth of a quota a client may use at once without being throttled."""
        return max(self.samples - 1, 0) * self.window_ms / 1_000

    @property
    def token_seconds(self) -> float:
        """For how many seconds tokens of mutations can be saved up."""
        return self.samples * self.window_ms / 1_000


@dataclass(slots=True)
class _Sample:
    began_ms: int
    last_ms: int
    total: float = 0.0


class SampledRate:
    """A rate over the newest samples."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative value takes back an earlier one."""
        self._forget(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].began_ms >= self._windows.window_ms:
            samples.append(_Sample(now_ms, now_ms))
        samples[-1].total += value
        samples[-1].last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """Return the rate."""
        self._forget(now_ms)
        return sum(each.total for each in self._samples) * 1_000 / self._span_ms(now_ms)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long the client must be silent until its rate is down to the quota, or 0.

        It solves rate * span / (span + wait) = quota.
        """
        rate = self.per_second(now_ms)
        if rate <= quota:
            return 0
        return rounded_ms((rate - quota) / quota * self._span_ms(now_ms))

    def _span_ms(self, now_ms: int) -> int:
        """Return the time span of the rate; the caller has called _forget()."""
        elapsed = now_ms - self._samples[0].began_ms if self._samples else 0
        window_ms = self._windows.window_ms
        missing = self._windows.samples - 1 - elapsed // window_ms
        return max(elapsed + max(missing, 0) * window_ms, 1)

    def _forget(self, now_ms: int) -> None:
        """Drop the samples whose last value is too old.  A sample is kept or dropped whole."""
        age_ms = self._windows.samples * self._windows.window_ms
        while self._samples and now_ms - self._samples[0].last_ms >= age_ms:
            self._samples.popleft()


class TokenBucket:
    """Tokens for mutations (KIP-599): `quota` tokens a second, at most those of all windows.

    A new bucket is full.  The number of tokens may become negative; then the client waits.
    """

    __slots__ = ("_at_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._at_ms = 0

    def take(self, count: float, quota: float, now_ms: int) -> None:
        """Take tokens, even if there are not enough."""
        self._tokens = self.tokens(quota, now_ms) - count

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return the number of tokens, which may be negative."""
        most = self._windows.token_seconds * quota
        tokens = most
        if self._tokens is not None:
            tokens = min(most, self._tokens + quota * (now_ms - self._at_ms) / 1_000)
        self._tokens, self._at_ms = tokens, now_ms
        return tokens

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long the client must wait until the number of tokens is not negative."""
        missing = -self.tokens(quota, now_ms)
        return rounded_ms(missing / quota * 1_000) if missing > 0 else 0


def rounded_ms(milliseconds: float) -> int:
    """Round as Java's Math.round() does, to at most MAX_THROTTLE_MS.  milliseconds: at least 0."""
    return int(min(milliseconds, MAX_THROTTLE_MS) + 0.5)
