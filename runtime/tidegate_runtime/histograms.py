"""Histograms of durations, for metrics: a sample costs a search in a tuple, and makes no object.

The bounds lie so close that a quantile taken from the counts is within 2 % of the true one, from
1 ms to 30 s.  A page shows only SHOWN of them.  Pure: times are passed in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from math import ceil, inf, log, sqrt
from typing import Final

SHOWN: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0),
)
"""The upper bounds that a page shows, in seconds."""
# The middle of a bucket is at most 2 % away from its ends.
_RATIO: Final = 1.04
# How long a copy of the counts is kept, and the most time between two copies.
RECENT_SECONDS: Final = 300.0
COPY_SECONDS: Final = 60.0


def _bounds() -> Iterator[float]:
    yield SHOWN[0]
    for low, high in pairwise(SHOWN):
        parts = ceil(log(high / low) / log(_RATIO))
        yield from (low * (high / low) ** (part / parts) for part in range(1, parts))
        yield high


BOUNDS: Final = tuple(_bounds())
"""The upper bounds of all buckets but the last, which has none."""
_SHOWN_AT: Final = tuple(map(BOUNDS.index, SHOWN))


class Histogram:
    """Durations in seconds.

    counts[i]: the samples above BOUNDS[i - 1], up to BOUNDS[i].  sum_seconds: the sum of all
    samples.
    """

    __slots__ = ("_copies", "counts", "sum_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum_seconds = 0.0
        # Earlier counts, each with its time.
        self._copies = deque([(-inf, self.counts.copy())])

    def add(self, seconds: float) -> None:
        """Count a sample."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum_seconds += seconds

    @property
    def count(self) -> int:
        """Return the number of samples."""
        return sum(self.counts)

    def shown(self) -> list[int]:
        """Return the samples up to each of SHOWN; last, all samples."""
        upto = list(accumulate(self.counts))
        return [*(upto[at] for at in _SHOWN_AT), upto[-1]]

    def recent(self, now: float) -> list[int]:
        """Return the counts of the last RECENT_SECONDS, or a little longer.

        If this is called every COPY_SECONDS, their span is exact to COPY_SECONDS.  Otherwise it
        begins at an earlier call.  now: seconds of one clock.
        """
        copies = self._copies
        while len(copies) > 1 and copies[1][0] <= now - RECENT_SECONDS:
            copies.popleft()
        if now - copies[-1][0] >= COPY_SECONDS:
            copies.append((now, self.counts.copy()))
        return [each - before for each, before in zip(self.counts, copies[0][1], strict=True)]


def added(histograms: Sequence[Histogram]) -> Histogram:
    """Return the sum of histograms."""
    found = Histogram()
    found.counts = [
        sum(column)
        for column in zip(found.counts, *(each.counts for each in histograms), strict=True)
    ]
    found.sum_seconds = sum(each.sum_seconds for each in histograms)
    return found


def quantiles(counts: Sequence[int], shares: Iterable[float]) -> list[float]:
    """Return the durations that these shares of the samples do not exceed; none without samples."""
    upto = list(accumulate(counts))
    total = upto[-1]
    return [_middle(bisect_left(upto, max(ceil(total * share), 1))) for share in shares if total]


def _middle(at: int) -> float:
    """Return the middle of a bucket; for the last one its lower end."""
    if at == 0:
        return BOUNDS[0] / 2
    return BOUNDS[-1] if at == len(BOUNDS) else sqrt(BOUNDS[at - 1] * BOUNDS[at])
