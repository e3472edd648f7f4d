"""When the open WAL object is sealed."""

from __future__ import annotations

from tidegate_gateway.network.inflow import Inflow
from tidegate_gateway.produce.put_budget import PutBudget
from tidegate_gateway.produce.seal_pace import LEAST_SECONDS, MOST_SECONDS, SealPace

MIB = 1 << 20
EFFICIENT = 7 * MIB
LINGER = 0.25


def pace_of(tokens_per_second: float = 0.0) -> tuple[SealPace, Inflow]:
    inflow = Inflow()
    return SealPace(PutBudget(tokens_per_second, EFFICIENT), inflow, EFFICIENT, LINGER), inflow


def pause(pace: SealPace, size_bytes: int, now: float) -> float:
    """Return the pause while another object is on its way."""
    return pace.pause_seconds(size_bytes, now, is_alone=False)


def stream(pace: SealPace, bytes_per_second: float, until: float) -> None:
    """Seal objects at a steady rate until a time."""
    step = 0.05
    for tick in range(1, int(until / step) + 1):
        pace.sealed(int(bytes_per_second * step), tick * step)


def test_an_idle_gateway_waits_for_nothing() -> None:
    pace, _ = pace_of(8.0)
    pace.stored(0.06)
    pace.opened(100.0)
    assert pause(pace, 100, 100.0) == 0.0


def test_objects_begin_a_part_of_a_put_apart() -> None:
    pace, _ = pace_of()
    pace.sealed(MIB, 10.0)
    pace.opened(10.0)
    assert abs(pause(pace, 100, 10.0) - LEAST_SECONDS) < 1e-9
    assert pace.pause_seconds(100, 10.0, is_alone=True) == 0.0
    pace.stored(0.06)
    assert abs(pause(pace, 100, 10.0) - 0.015) < 1e-9
    assert pause(pace, 100, 10.0151) == 0.0
    pace.stored(10.0)
    assert abs(pause(pace, 100, 10.0) - MOST_SECONDS) < 1e-9


def test_answers_bring_requests_that_travel_with_what_waits() -> None:
    pace, _ = pace_of()
    pace.stored(0.016)
    pace.sealed(MIB, 10.0)
    pace.opened(10.002)
    pace.answered(10.016)
    assert abs(pace.pause_seconds(MIB, 10.016, is_alone=True) - 0.002) < 1e-9
    assert pace.pause_seconds(MIB, 10.0181, is_alone=True) == 0.0
    assert pace.pause_seconds(EFFICIENT, 10.016, is_alone=True) == 0.0


def test_a_request_on_its_way_is_waited_for_but_not_long() -> None:
    pace, inflow = pace_of()
    pace.stored(0.06)
    pace.opened(10.0)
    inflow.partial_at = 10.0
    assert pause(pace, MIB, 10.0) == 0.0  # the request has ended
    inflow.begin()
    assert 0 < pause(pace, MIB, 10.0) <= 0.0051
    inflow.partial_at = 10.014
    assert 0 < pause(pace, MIB, 10.014) <= 0.0011
    inflow.partial_at = 10.016  # the request arrives too slowly
    assert pause(pace, MIB, 10.016) == 0.0


def test_the_pace_wakes_its_waiter_once_all_requests_have_ended() -> None:
    told: list[bool] = []
    inflow = Inflow()
    inflow.on_end = lambda: told.append(inflow.is_under_way)
    inflow.begin()
    inflow.begin()
    inflow.end()
    assert told == []
    inflow.end()
    assert told == [False]


def test_a_stream_fills_objects_where_requests_cost_money() -> None:
    pace, inflow = pace_of(8.0)
    stream(pace, 50 * MIB, 5.0)
    pace.opened(5.1)
    inflow.whole_at = 5.1
    assert pause(pace, MIB, 5.1) > 0.0
    assert pause(pace, EFFICIENT, 5.1) == 0.0


def test_clients_that_wait_for_their_answers_are_not_kept_waiting() -> None:
    pace, inflow = pace_of(8.0)
    stream(pace, 50 * MIB, 5.0)
    pace.opened(5.1)
    inflow.whole_at = 5.1
    assert pause(pace, MIB, 5.106) == 0.0


def test_a_stream_is_not_held_up_beyond_the_linger() -> None:
    pace, inflow = pace_of(8.0)
    stream(pace, 50 * MIB, 5.0)
    pace.opened(5.1)
    inflow.whole_at = 5.351
    assert pause(pace, MIB, 5.351) == 0.0


def test_a_slow_stream_is_left_to_the_budget() -> None:
    pace, inflow = pace_of(8.0)
    stream(pace, MIB, 5.0)
    pace.opened(5.1)
    inflow.whole_at = 5.1
    assert pause(pace, 1000, 5.1) == 0.0  # tokens are left
    for _ in range(1000):
        pace.budget.take(0, 5.1)
    assert pause(pace, 1000, 5.1) == LINGER
    assert pause(pace, 1000, 5.36) == 0.0


def test_without_a_budget_no_object_is_filled_up() -> None:
    pace, inflow = pace_of()
    stream(pace, 500 * MIB, 5.0)
    pace.opened(5.1)
    inflow.whole_at = 5.1
    assert pause(pace, MIB, 5.1) == 0.0
