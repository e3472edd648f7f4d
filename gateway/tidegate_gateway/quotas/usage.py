"""What the clients of each quota used lately: bounded in number, and forgotten after an hour."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from tidegate_coordination.security.quotas import Bucket

from .rates import SampledRate, TokenBucket, Windows

MAX_BUCKETS: Final = 10_000
"""Of each kind of quota.  At the bound the bucket that was unused for longest makes room; clients
with ever new client ids lose no more than that by it.
"""
FORGET_AFTER_MS: Final = 3_600_000
THROTTLE_WINDOWS: Final = Windows(samples=2, window_ms=30_000)
"""Kafka's default for metrics; of the throttle times that are shown."""


class RecentMean:
    """The mean of the values of the last minute."""

    __slots__ = ("_counts", "_values")

    def __init__(self) -> None:
        self._values = SampledRate(THROTTLE_WINDOWS)
        self._counts = SampledRate(THROTTLE_WINDOWS)

    def record(self, value: float, now_ms: int) -> None:
        """Add a value."""
        self._values.record(value, now_ms)
        self._counts.record(1, now_ms)

    def mean(self, now_ms: int) -> float:
        """Return the mean; 0 without values."""
        count = self._counts.per_second(now_ms)
        return self._values.per_second(now_ms) / count if count else 0.0


class RateUsage:
    """The rate of one bucket, and how long its clients were throttled."""

    __slots__ = ("rate", "throttled")

    def __init__(self, windows: Windows) -> None:
        self.rate = SampledRate(windows)
        self.throttled = RecentMean()


class MutationUsage:
    """The tokens of one bucket, the rate of its mutations, and how long clients were throttled."""

    __slots__ = ("rate", "throttled", "tokens")

    def __init__(self, windows: Windows) -> None:
        self.tokens = TokenBucket(windows)
        self.rate = SampledRate(windows)
        self.throttled = RecentMean()


Usage = TypeVar("Usage")


class Buckets(Generic[Usage]):
    """See the module's head.  The bucket that was unused for longest stands first."""

    def __init__(self, make: Callable[[], Usage]) -> None:
        self._make = make
        self._used: OrderedDict[Bucket, tuple[Usage, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used)

    def of(self, bucket: Bucket, now_ms: int) -> Usage:
        """Return a bucket's usage, a new one if it was not used for an hour."""
        self._forget(now_ms)
        found = self._used.get(bucket)
        usage = self._make() if found is None else found[0]
        self._used[bucket] = usage, now_ms
        self._used.move_to_end(bucket)
        if len(self._used) > MAX_BUCKETS:
            self._used.popitem(last=False)
        return usage

    def recent(self, maximum: int, now_ms: int) -> Iterator[tuple[Bucket, Usage]]:
        """Yield the buckets that were used last, at most so many."""
        self._forget(now_ms)
        for bucket, (usage, _) in islice(reversed(self._used.items()), maximum):
            yield bucket, usage

    def _forget(self, now_ms: int) -> None:
        while self._used:
            _, used_ms = next(iter(self._used.values()))
            if now_ms - used_ms < FORGET_AFTER_MS:
                return
            self._used.popitem(last=False)
