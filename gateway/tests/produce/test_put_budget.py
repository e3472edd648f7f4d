"""When the request budget allows a seal."""

import pytest

from tidegate_gateway.produce.put_budget import HELD_SECONDS, PutBudget

MIB = 1 << 20


def test_a_store_that_costs_nothing_has_no_budget() -> None:
    budget = PutBudget(0.0, 6 * MIB)
    for _ in range(10_000):
        assert budget.wait_seconds(1, 0.0) == 0.0
        budget.take(1, 0.0)


def test_large_objects_are_free_and_small_ones_cost_up_to_a_token() -> None:
    budget = PutBudget(8.0, 6 * MIB)
    assert budget.cost(6 * MIB) == budget.cost(8 * MIB) == 0.0
    assert budget.cost(3 * MIB) == pytest.approx(0.5)
    assert budget.cost(100) == pytest.approx(1.0, abs=0.001)


def test_a_minute_is_held_and_then_the_rate_holds() -> None:
    budget = PutBudget(8.0, 6 * MIB)
    at_once = 0
    while budget.wait_seconds(1, 0.0) == 0.0:
        budget.take(1, 0.0)
        at_once += 1
    assert at_once == pytest.approx(8 * HELD_SECONDS, abs=1)
    assert budget.wait_seconds(1, 0.0) == pytest.approx(1 / 8, abs=0.01)
    # Ten minutes later the budget holds one minute's requests again, not ten minutes'.
    later = 600.0
    again = 0
    while budget.wait_seconds(1, later) == 0.0:
        budget.take(1, later)
        again += 1
    assert again == pytest.approx(at_once, abs=1)
