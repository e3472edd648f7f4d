"""Histograms: buckets, quantiles within 2 %, and the samples of the last minutes."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from tidegate_runtime.histograms import (
    BOUNDS,
    COPY_SECONDS,
    RECENT_SECONDS,
    SHOWN,
    Histogram,
    added,
    quantiles,
)


def of(*samples: float) -> Histogram:
    found = Histogram()
    for each in samples:
        found.add(each)
    return found


def test_a_bound_belongs_to_the_bucket_below_it() -> None:
    found = of(*SHOWN, 0.0, 31.0)
    assert found.shown() == [*range(2, len(SHOWN) + 2), len(SHOWN) + 2]
    assert found.count == len(SHOWN) + 2
    assert found.sum_seconds == pytest.approx(sum(SHOWN) + 31)


def test_bounds_rise_by_four_percent_at_most() -> None:
    assert set(SHOWN) <= set(BOUNDS)
    steps = [high / low for low, high in pairwise(BOUNDS)]
    assert 1 < min(steps) <= max(steps) < 1.0401
    assert (BOUNDS[0], BOUNDS[-1]) == (0.001, 30.0)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.75, 0.95, 0.98, 0.99, 0.999, 1.0])
def test_quantiles_are_within_two_percent(share: float) -> None:
    rng = Random(7)
    samples = sorted(0.001 * 30_000 ** rng.random() for _ in range(5_000))
    rank = max(int(share * 5_000 - 1e-9), 0)
    [found] = quantiles(of(*samples).counts, [share])
    assert found == pytest.approx(samples[rank], rel=0.02)


def test_quantiles_beyond_the_bounds() -> None:
    assert quantiles(Histogram().counts, [0.5, 0.9]) == []
    assert quantiles(of(0.0, 0.0, 100.0).counts, [0.5, 0.9]) == [0.0005, 30.0]


def test_sums() -> None:
    total = added([of(0.5, 2.0), of(0.5)])
    assert (total.count, total.sum_seconds) == (3, 3.0)
    assert total.counts == of(0.5, 0.5, 2.0).counts


def test_recent_samples_are_those_of_the_last_minutes() -> None:
    histogram = of(1.0)
    assert sum(histogram.recent(0.0)) == 1
    now = 0.0
    while now < RECENT_SECONDS + 2 * COPY_SECONDS:
        now += 15.0
        histogram.add(2.0)
        if now == RECENT_SECONDS:
            # the sample from before the first call is too old
            assert sum(histogram.recent(now)) == 20
        histogram.recent(now)
    assert 20 <= sum(histogram.recent(now)) <= 24


def test_recent_samples_after_a_pause_are_all_since_the_last_look() -> None:
    histogram = of(1.0)
    histogram.recent(0.0)
    histogram.add(1.0)
    assert sum(histogram.recent(10_000.0)) == 1
    assert sum(histogram.recent(10_000.0 + RECENT_SECONDS)) == 0
