"""Recent use of each quota, for a limited number of clients and for an hour."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from tidegate_coordination.security.quotas import Bucket

from .rates import SampledRate, Windows
from .sharing.allowance import Allowance

MAX_BUCKETS: Final = 10_000
"""The most buckets of each kind of quota.  At the bound the bucket that was unused for longest
makes room; clients with ever new client ids lose no more than that by it.
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


class Tokens(Protocol):
    """The tokens of one bucket's quota; see rates.TokenBucket."""

    def take(self, count: float, quota: float, now_ms: int) -> None: ...

    def tokens(self, quota: float, now_ms: int) -> float: ...

    def throttle_ms(self, quota: float, now_ms: int) -> int: ...


class RateUsage:
    """The rate of one bucket, and how long its clients were throttled."""

    __slots__ = ("_windows", "rate", "throttled")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self.rate = SampledRate(windows)
        self.throttled = RecentMean()

    def most(self, quota: float, now_ms: int) -> int:
        """Return the amount that a client may use at once."""
        return _most(quota * self._windows.burst_seconds)

    def spend(self, amount: float, quota: float, now_ms: int) -> int:
        """Count an amount of use; return how long the client must wait for it, in ms."""
        self.rate.record(amount, now_ms)
        return self.rate.throttle_ms(quota, now_ms)

    def offer(self, amount: float, quota: float, now_ms: int) -> int:
        """Count as spend() does, but return 0 for too large an amount after a time without use.

        No wait would admit such an amount.
        """
        was_silent = self.rate.per_second(now_ms) <= 0
        throttle_ms = self.spend(amount, quota, now_ms)
        return 0 if was_silent and amount > self.most(quota, now_ms) else throttle_ms

    def take_back(self, amount: float, quota: float, now_ms: int) -> None:
        """Take back an amount that was counted but not used."""
        self.rate.record(-amount, now_ms)

    def share(self, now_ms: int) -> float | None:
        """Return this gateway's share of the quota; None if it has the whole quota."""
        return None


class SharedUsage(RateUsage):
    """The usage of a quota of which this gateway has a share; see RateUsage."""

    __slots__ = ("allowance",)

    def __init__(self, windows: Windows, allowance: Allowance) -> None:
        super().__init__(windows)
        self.allowance = allowance

    def most(self, quota: float, now_ms: int) -> int:
        """See RateUsage."""
        return _most(self.allowance.most(quota, now_ms))

    def spend(self, amount: float, quota: float, now_ms: int) -> int:
        """See RateUsage."""
        self.rate.record(amount, now_ms)
        self.allowance.take(amount, quota, now_ms)
        return self.allowance.throttle_ms(quota, now_ms)

    def offer(self, amount: float, quota: float, now_ms: int) -> int:
        """See RateUsage.  An answer without bytes never waits, and causes no demand for a share."""
        if not amount:
            return 0
        most = self.most(quota, now_ms)
        is_full = self.allowance.tokens(quota, now_ms) >= most
        throttle_ms = self.spend(amount, quota, now_ms)
        return 0 if is_full and amount > most else throttle_ms

    def take_back(self, amount: float, quota: float, now_ms: int) -> None:
        """See RateUsage."""
        self.rate.record(-amount, now_ms)
        self.allowance.take(-amount, quota, now_ms)

    def share(self, now_ms: int) -> float | None:
        """See RateUsage."""
        return self.allowance.share(now_ms)


class MutationUsage:
    """The tokens of one bucket, the rate of its mutations, and how long clients were throttled."""

    __slots__ = ("rate", "throttled", "tokens")

    def __init__(self, windows: Windows, tokens: Tokens) -> None:
        self.tokens = tokens
        self.rate = SampledRate(windows)
        self.throttled = RecentMean()

    def share(self, now_ms: int) -> float | None:
        """See RateUsage."""
        return self.tokens.share(now_ms) if isinstance(self.tokens, Allowance) else None


def _most(amount: float) -> int:
    return int(min(amount, 2**31 - 1))


Usage = TypeVar("Usage")


class Buckets(Generic[Usage]):
    """See the module's head.  Buckets are in the order of their last use."""

    def __init__(self, make: Callable[[Bucket], Usage]) -> None:
        self._make = make
        self._used: OrderedDict[Bucket, tuple[Usage, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used)

    def of(self, bucket: Bucket, now_ms: int) -> Usage:
        """Return a bucket's usage, a new one if it was not used for an hour."""
        self._forget(now_ms)
        found = self._used.get(bucket)
        usage = self._make(bucket) if found is None else found[0]
        self._used[bucket] = usage, now_ms
        self._used.move_to_end(bucket)
        if len(self._used) > MAX_BUCKETS:
            self._used.popitem(last=False)
        return usage

    def recent(self, maximum: int, now_ms: int) -> Iterator[tuple[Bucket, Usage]]:
        """Yield the buckets that were used last, at most `maximum`."""
        self._forget(now_ms)
        for bucket, (usage, _) in islice(reversed(self._used.items()), maximum):
            yield bucket, usage

    def _forget(self, now_ms: int) -> None:
        while self._used:
            _, used_ms = next(iter(self._used.values()))
            if now_ms - used_ms < FORGET_AFTER_MS:
                return
            self._used.popitem(last=False)
