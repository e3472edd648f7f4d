"""How a quota is divided, and how much clients want of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_gateway.quotas.sharing.demand import HEADROOM, LOOKS, Demand
from tidegate_gateway.quotas.sharing.fair_shares import fair_shares, floor_of
from tidegate_gateway.quotas.sharing.held_share import FALL_MS, HOLD_MS, KEPT_MS, HeldShare

Demands = st.dictionaries(st.integers(1, 20), st.floats(0, 1e12), min_size=1, max_size=20)
Quotas = st.floats(1e-3, 1e12)
SLACK = 1 + 1e-9
LOOK_MS = 500


@given(Demands, st.integers(0, 5), Quotas)
def test_shares_and_floors_are_the_quota_and_nobody_gets_too_little(
    demands: dict[int, float], idle: int, quota: float
) -> None:
    live = len(demands) + idle
    floor = floor_of(quota, live)
    shares = fair_shares(demands, live, quota)
    assert sum(shares.values()) + idle * floor == pytest.approx(quota)
    for gateway, demand in demands.items():
        assert shares[gateway] * SLACK >= max(min(demand, quota / live), floor)


@given(Demands, Quotas)
def test_who_asks_for_more_never_gets_less(demands: dict[int, float], quota: float) -> None:
    shares = fair_shares(demands, len(demands), quota)
    ordered = sorted(demands, key=lambda each: (demands[each], shares[each]))
    assert all(shares[less] <= shares[more] * SLACK for less, more in pairwise(ordered))


def test_a_quota_is_divided_as_calculated_by_hand() -> None:
    assert fair_shares({1: 1_000, 2: 200}, 2, 1_000) == {1: 800, 2: 200}
    # The rest of the quota is divided evenly.
    assert fair_shares({1: 500, 2: 100}, 2, 1_000) == {1: 700, 2: 300}
    # The third gateway keeps its floor.
    assert fair_shares({1: 1_000, 2: 1_000}, 3, 900) == {1: 448.5, 2: 448.5}
    assert floor_of(900, 3) == 3


def test_demand_is_what_passed_in_five_seconds() -> None:
    demand = Demand(0)
    for look in range(1, LOOKS + 1):
        demand.note_passed(50)
        found = demand.look(1_000, look * LOOK_MS)
    assert found == pytest.approx(100 * HEADROOM)
    for look in range(LOOKS + 1, 2 * LOOKS + 1):
        assert found > 0
        found = demand.look(1_000, look * LOOK_MS)
    assert found == 0


def test_one_large_request_is_not_much_demand() -> None:
    demand = Demand(0)
    demand.note_passed(500)
    assert demand.look(1_000, 10) == pytest.approx(100 * HEADROOM)


def test_a_client_that_waits_wants_the_whole_quota_until_its_wait_ends() -> None:
    demand = Demand(0)
    demand.note_passed(100)
    demand.note_waiting(700)
    assert demand.look(1_000, 500) == 1_000
    assert demand.look(1_000, 1_000) == 1_000
    assert demand.look(1_000, 1_500) == pytest.approx(20 * HEADROOM)


def test_what_is_taken_back_was_no_demand() -> None:
    demand = Demand(0)
    demand.note_passed(700)
    demand.note_passed(-700)
    assert demand.look(1_000, 500) == 0


def test_a_share_holds_for_a_while_then_falls_to_an_even_one() -> None:
    held = HeldShare()
    assert held.per_second(900, 3, 10**9) == 300
    held.take(800, 1_000)
    assert held.per_second(900, 3, 1_000 + HOLD_MS) == 800
    assert held.per_second(900, 3, 1_000 + HOLD_MS + FALL_MS // 2) == 550
    assert held.per_second(900, 3, 1_000 + KEPT_MS) == 300
    assert held.per_second(900, 3, 10**9) == 300
    assert held.per_second(90, 3, 1_000) == 90  # never more than the quota


def test_a_small_share_rises_only_after_large_ones_have_fallen() -> None:
    held = HeldShare()
    held.take(100, 1_000)
    assert held.per_second(900, 3, 1_000 + KEPT_MS) == 100
    assert held.per_second(900, 3, 1_000 + KEPT_MS + FALL_MS // 2) == 200
    assert held.per_second(900, 3, 1_000 + KEPT_MS + FALL_MS) == 300


def test_a_released_share_stays_the_floor_until_it_is_asked_for_in_vain() -> None:
    held = HeldShare()
    held.take(800, 1_000)
    held.release(3)
    assert held.per_second(900, 3, 10**9) == 3
    held.resume(10**9)
    assert held.per_second(900, 3, 10**9 + KEPT_MS) == 3
    assert held.per_second(900, 3, 10**9 + KEPT_MS + FALL_MS) == 300


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.integers(0, 2 * KEPT_MS + FALL_MS),
)
def test_silent_gateways_never_hold_more_than_the_quota(parts: list[float], silent_ms: int) -> None:
    total = max(sum(parts), 1.0)
    sum_held = 0.0
    for part in parts:
        held = HeldShare()
        held.take(part / total * 1_000, 0)
        sum_held += held.per_second(1_000, len(parts), silent_ms)
    assert sum_held <= 1_000 * SLACK
