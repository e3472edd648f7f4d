"""Metrics that clients push: joined by client, and bounded whatever the clients push."""

from __future__ import annotations

import pytest

from tidegate_gateway.telemetry import client_values as module
from tidegate_gateway.telemetry.client_values import OTHER, Client, ClientValues
from tidegate_gateway.telemetry.otlp import Pushed
from tidegate_gateway.telemetry.subscriptions import Choice

ALL = Choice(1, ("*",), 1_000)
ONE, TWO = Client("one", "java"), Client("two", "rd")
PRODUCER = "org.apache.kafka.producer."


def gauges(**values: float) -> Pushed:
    return Pushed(gauges={name.replace("_", "."): value for name, value in values.items()})


def deltas(**values: float) -> Pushed:
    return Pushed(deltas={name.replace("_", "."): value for name, value in values.items()})


def shown(values: ClientValues) -> dict[str, float]:
    found = [*values.counters(), *values.gauges()]
    both = {f"{client.client_id} {name}": value for name, client, value in found}
    assert len(both) == len(found)
    return both


def test_names_are_those_of_prometheus() -> None:
    values = ClientValues()
    names = [f"{PRODUCER}node.request-latency.avg", "é.x", "a.total", "b.total.total", "total"]
    values.take(ONE, b"1", ALL, Pushed(dict.fromkeys(names, 1.0), {"s": 2.0, "t.total": 3.0}), 0)
    assert shown(values) == {
        "one tidegate_client_producer_node_request_latency_avg": 1.0,
        "one tidegate_client___x": 1.0,
        "one tidegate_client_a": 1.0,
        "one tidegate_client_b": 1.0,
        "one tidegate_client_": 1.0,
        "one tidegate_client_s_total": 2.0,
        "one tidegate_client_t_total": 3.0,
    }


def test_of_a_gauge_the_largest_of_the_last_pushes_is_shown() -> None:
    values = ClientValues()
    values.take(ONE, b"1", ALL, gauges(g=5, h=1), 0)
    values.take(ONE, b"2", ALL, gauges(g=3), 1)
    values.take(TWO, b"3", ALL, gauges(g=9), 2)
    key = "one tidegate_client_g"
    assert shown(values)[key] == 5
    values.take(ONE, b"1", ALL, gauges(g=2), 3)
    assert shown(values) == {key: 3, "two tidegate_client_g": 9}


def test_counters_add_up_over_instances_that_come_and_go() -> None:
    values = ClientValues()
    for at, instance in enumerate((b"1", b"2", b"1", b"3")):
        values.take(ONE, instance, ALL, deltas(s=2), at * 900)
    assert shown(values) == {"one tidegate_client_s_total": 8}


def test_a_client_is_forgotten_after_three_silent_intervals() -> None:
    values = ClientValues()
    values.take(ONE, b"1", ALL, deltas(s=1), 0)
    values.take(ONE, b"2", ALL, gauges(g=1), 500)
    values.take(TWO, b"3", Choice(1, ("*",), 2_000), gauges(g=1), 0)
    values.forget_silent(3_000)
    assert set(shown(values)) == {
        "one tidegate_client_s_total",
        "one tidegate_client_g",
        "two tidegate_client_g",
    }
    values.forget_silent(3_500)
    assert set(shown(values)) == {"two tidegate_client_g"}
    values.forget_silent(6_000)
    assert (shown(values), len(values)) == ({}, 0)


def test_only_what_is_asked_for_is_shown() -> None:
    values = ClientValues()
    choice = Choice(1, (PRODUCER,), 1_000)
    values.take(ONE, b"1", choice, Pushed({f"{PRODUCER}a": 1, "b": 1}, {"c": 1}, 2), 0)
    assert set(shown(values)) == {"one tidegate_client_producer_a"}
    assert values.points == {"shown": 1, "unsubscribed": 2, "ignored": 2}


def test_further_clients_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 2)
    values = ClientValues()
    for number in range(5):
        client = Client(f"c{number}", "rd")
        pushed = Pushed({"g": number}, {"s": 1})
        values.take(client, bytes([number]), ALL, pushed, number)
    assert shown(values) == {
        "c0 tidegate_client_g": 0,
        "c0 tidegate_client_s_total": 1,
        "c1 tidegate_client_g": 1,
        "c1 tidegate_client_s_total": 1,
        "_other tidegate_client_s_total": 3,
    }
    assert values.points == {"shown": 4, "other": 3, "beyond": 3, "ignored": 0}
    assert len(values) == 2
    values.take(Client("c0", "rd"), b"\0", ALL, Pushed(), 2_000)
    values.forget_silent(3_001)
    values.take(Client("c9", "rd"), b"9", ALL, gauges(g=9), 3_002)
    assert "c9 tidegate_client_g" in shown(values)


def test_a_client_that_calls_itself_other_takes_no_place() -> None:
    values = ClientValues()
    values.take(OTHER, b"1", ALL, Pushed({"g": 1}, {"s": 1}), 0)
    values.take(ONE, b"2", ALL, gauges(g=1), 0)
    assert len(values) == 1
    values.forget_silent(3_000)
    assert shown(values) == {}


def test_series_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SERIES_OF_CLIENT", 3)
    monkeypatch.setattr(module, "MAX_SERIES", 5)
    values = ClientValues()
    for number in range(20):
        client = Client(f"c{number % 4}", "rd")
        pushed = Pushed({f"g{number}": 1}, {f"s{number}": 1})
        values.take(client, bytes([number % 4]), ALL, pushed, number)
    own = [each for each in shown(values) if not each.startswith("_other")]
    assert len(own) <= 5
    assert len(shown(values)) <= 8
    values.forget_silent(10_000)
    values.take(ONE, b"1", ALL, Pushed({"g": 1}, {"s": 1}), 10_000)
    assert len(shown(values)) == 2


def test_gauges_of_many_instances_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_GAUGES", 10)
    values = ClientValues()
    for number in range(100):
        values.take(ONE, bytes([number]), ALL, gauges(a=100 - number, b=1), 0)
    # Only the gauges of the last five instances remain.
    assert shown(values)["one tidegate_client_a"] == 5
