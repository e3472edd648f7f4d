"""Reads the metrics that clients push."""

from __future__ import annotations

from contextlib import suppress
from math import inf, nan
from random import Random

import pytest

from tests.worlds.clients.otlp_writer import gauge, metrics, number, part, point, total, varint
from tidegate_gateway.telemetry.otlp import (
    MAX_FIELDS,
    MAX_NAME_BYTES,
    MAX_NAMES,
    BadMetrics,
    read_metrics,
)

GOOD = metrics(gauge("g", point(1.5), point(3), point(-2)), total("s", point(4), point(0.5)))


def test_gauges_and_deltas_are_read() -> None:
    pushed = read_metrics(GOOD)
    assert pushed.gauges == {"g": 3.0}
    assert pushed.deltas == {"s": 4.5}
    assert pushed.ignored == 0


def test_a_negative_gauge_is_read() -> None:
    assert read_metrics(metrics(gauge("g", point(-2), point(-3)))).gauges == {"g": -2.0}


def test_several_resources_and_repeated_metrics_are_one() -> None:
    pushed = read_metrics(metrics(total("s", point(1)), total("s", point(2))) + GOOD)
    assert pushed.deltas == {"s": 7.5}


@pytest.mark.parametrize(
    "metric",
    [
        total("s", point(1), temporality=2),
        total("s", point(1), temporality=0),
        total("s", point(-1)),
        total("s", point(1e300)),
        gauge("g", point(nan)),
        gauge("g", point(inf)),
        gauge("g", point(-inf)),
        gauge("g", b""),
        gauge("g", point(1, number(8, 1))),
        part(1, b"h") + part(9, part(1, b"")),
        part(1, b"h") + part(10, part(1, b"")),
        part(1, b"h") + part(11, part(1, b"")),
    ],
)
def test_all_else_is_passed_over(metric: bytes) -> None:
    pushed = read_metrics(metrics(metric))
    assert (pushed.gauges, pushed.deltas, pushed.ignored) == ({}, {}, 1)


def test_unknown_fields_are_passed_over() -> None:
    unknown = number(99, 1 << 60) + part(98, b"x") + varint(97 << 3 | 5) + bytes(4)
    unknown += varint(96 << 3 | 1) + bytes(8)
    found = metrics(unknown + gauge("g", unknown + point(1.0, unknown)))
    assert read_metrics(unknown + found).gauges == {"g": 1.0}


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x08\x01",
        varint(1 << 3 | 3),
        varint(1 << 3 | 4),
        varint(1 << 3 | 6),
        b"\x00\x00",
        b"\x08" + b"\xff" * 9 + b"\xff\x01",
        varint(1 << 3 | 2) + varint(1 << 69),
        metrics(part(1, b"\xff") + gauge("g")),
        metrics(gauge("x" * (MAX_NAME_BYTES + 1), point(1))),
        metrics(number(5, 1)),
        metrics(number(1, 1)),
        metrics(gauge("g", number(4, 1))),
        metrics(gauge("g", part(6, b"1234"))),
        metrics(part(7, part(2, b"x"))),
        metrics(*[b""] * MAX_FIELDS),
        metrics(*[gauge(f"g{each}", point(1)) for each in range(MAX_NAMES + 1)]),
        metrics(*[total(f"s{each}", point(1)) for each in range(MAX_NAMES + 1)]),
    ],
)
def test_what_is_no_such_message_is_refused(data: bytes) -> None:
    with pytest.raises(BadMetrics):
        read_metrics(data)


def test_no_damage_gives_another_error() -> None:
    rng = Random(1)
    for _ in range(20_000):
        data = bytearray(GOOD)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with suppress(BadMetrics):
            read_metrics(bytes(data[: rng.randint(1, len(data))]))
