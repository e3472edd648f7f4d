"""How many lines of a kind are written."""

from __future__ import annotations

import pytest

from tidegate_runtime import line_rates
from tidegate_runtime.line_rates import LineRate, LineRates


def test_a_burst_is_cut_and_the_next_line_tells_how_many_are_missing() -> None:
    rate = LineRate(3)
    assert [rate.take(5.0) for _ in range(5)] == [0, 0, 0, None, None]
    assert rate.take(64.0) is None
    assert [rate.take(65.0) for _ in range(4)] == [3, 0, 0, None]
    assert rate.take(1e9) == 1


def test_of_a_steady_flood_each_line_is_written_or_told() -> None:
    rate = LineRate(100)
    # ten minutes with ten lines a second
    told = [rate.take(float(number) / 10) for number in range(6001)]
    written = [each for each in told if each is not None]
    assert len(written) == 10 * 100 + 1
    assert len(written) + sum(written) == 6001


def test_each_kind_has_its_own_rate() -> None:
    rates = LineRates()
    assert [rates.take("one", "text", 2, 0.0) for _ in range(3)] == [0, 0, None]
    assert rates.take("one", "other", 2, 0.0) == 0
    assert rates.take("two", "text", 2, 0.0) == 0
    assert rates.left_out == 1


def test_kinds_without_end_share_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_rates, "MAX_KINDS", 10)
    rates = LineRates()
    told = [rates.take("one", f"text {number}", 5, 0.0) for number in range(100)]
    assert told.count(0) == 10 + 5
    assert rates.take("one", "text 3", 5, 0.0) == 0
