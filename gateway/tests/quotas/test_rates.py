"""Rates and throttle times, beside values calculated by hand and a naive model."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_gateway.quotas.rates import MAX_THROTTLE_MS, SampledRate, TokenBucket, Windows

DEFAULTS = Windows()


def test_a_rate_is_over_ten_seconds_at_least() -> None:
    rate = SampledRate(DEFAULTS)
    rate.record(1_000, 50)
    assert rate.per_second(50) == 100
    rate.record(1_000, 1_550)
    # Kafka counts at least ten whole windows.  One has passed since 50 ms, so nine are added.
    assert rate.per_second(1_550) == 2_000 / (1.5 + 9)


def test_a_rate_is_over_all_its_windows_once_there_are_more() -> None:
    rate = SampledRate(DEFAULTS)
    for second in range(11):
        rate.record(500, 1_000 * second)
    assert rate.per_second(10_000) == 11 * 500 / 10
    assert rate.per_second(10_900) == 11 * 500 / 10.9
    # The first window's value is eleven seconds old.
    assert rate.per_second(11_000) == 10 * 500 / 10


def test_windows_are_forgotten_by_their_last_value() -> None:
    rate = SampledRate(DEFAULTS)
    rate.record(10, 0)
    rate.record(10, 999)
    assert rate.per_second(11_998) == 20 / 11.998
    assert rate.per_second(11_999) == 0


def test_a_value_is_taken_back() -> None:
    rate = SampledRate(DEFAULTS)
    rate.record(70, 0)
    rate.record(30, 100)
    rate.record(-30, 100)
    assert rate.per_second(100) == 70 / 10.1


def test_the_throttle_time_brings_the_rate_to_the_quota() -> None:
    rate = SampledRate(DEFAULTS)
    rate.record(1_000, 0)
    assert rate.throttle_ms(100, 0) == 0
    rate.record(500, 0)
    # 150 a second over 10 s; at 100 a second it takes 15 s.
    assert rate.throttle_ms(100, 0) == 5_000
    assert rate.throttle_ms(99.99, 0) == 5_002  # 5,001.5 rounded up


def test_throttle_times_fit_the_wire() -> None:
    rate = SampledRate(DEFAULTS)
    rate.record(1e9, 0)
    assert rate.throttle_ms(1e-300, 0) == MAX_THROTTLE_MS


def test_one_sample_alone() -> None:
    rate = SampledRate(Windows(samples=1, window_ms=2_000))
    rate.record(10, 5)
    assert rate.per_second(5) == 10 * 1_000  # over one ms
    assert rate.per_second(1_005) == 10
    assert rate.per_second(2_005) == 0


@dataclass
class Naive:
    """Keeps every value, and sorts all values into windows for each question."""

    windows: Windows
    values: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])

    def per_second(self, now_ms: int) -> float:
        grouped: list[list[tuple[int, float]]] = []
        for at, value in self.values:
            if not grouped or at - grouped[-1][0][0] >= self.windows.window_ms:
                grouped.append([])
            grouped[-1].append((at, value))
        age_ms = self.windows.samples * self.windows.window_ms
        kept = [each for each in grouped if now_ms - each[-1][0] < age_ms]
        elapsed = now_ms - kept[0][0][0] if kept else 0
        while elapsed // self.windows.window_ms < self.windows.samples - 1:
            elapsed += self.windows.window_ms
        total = sum(value for group in kept for _, value in group)
        return total / (max(elapsed, 1) / 1_000)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(1, 10**6)), max_size=60),
    st.integers(1, 12),
    st.sampled_from((1_000, 2_000)),
)
def test_rates_are_those_of_a_naive_model(
    steps: list[tuple[int, int]], samples: int, window_ms: int
) -> None:
    windows = Windows(samples, window_ms)
    rate, naive, now_ms = SampledRate(windows), Naive(windows), 0
    for pause_ms, value in steps:
        now_ms += pause_ms
        rate.record(value, now_ms)
        naive.values.append((now_ms, value))
        expected = naive.per_second(now_ms)
        assert abs(rate.per_second(now_ms) - expected) <= 1e-9 * expected


def test_a_client_that_waits_as_told_stays_at_its_quota() -> None:
    rate, now_ms, total = SampledRate(DEFAULTS), 0, 0
    while now_ms < 600_000:
        rate.record(30_000, now_ms)
        total += 30_000
        now_ms += 1 + rate.throttle_ms(10_000, now_ms)
    assert 0.95 * 10_000 < total / 600 < 1.1 * 10_000  # Kafka comes no closer


def test_tokens_fill_up_to_all_windows_and_go_below_zero() -> None:
    bucket = TokenBucket(Windows(samples=11, window_ms=1_000))
    assert bucket.tokens(2, 0) == 22
    bucket.take(32, 2, 0)
    assert bucket.tokens(2, 0) == -10
    assert bucket.throttle_ms(2, 0) == 5_000
    assert bucket.throttle_ms(2, 4_000) == 1_000
    assert bucket.throttle_ms(2, 5_000) == 0
    assert bucket.tokens(2, 6_000) == 2
    assert bucket.tokens(2, 600_000) == 22
    assert bucket.tokens(1, 600_000) == 11  # a smaller quota holds at once
