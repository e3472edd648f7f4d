"""The counts and judges of compat-tests/zones."""

from __future__ import annotations

from zones.counting import Counts, Exchange
from zones.fan_out import _row
from zones.proxying import header
from zones.run import too_many
from zones.traffic import KEYS, cases

from tidegate_gateway.network.proxy_header import read_proxy_header
from tidegate_gateway.zones.zones import KEYS as KNOWN
from tidegate_gateway.zones.zones import said_in_client_id


def test_every_key_is_tried_and_says_what_is_meant() -> None:
    assert set(KEYS) == KNOWN
    said = {case.client_id: said_in_client_id(case.client_id) for case in cases()}
    assert [each.client_id for each in cases() if said[each.client_id] != each.zone] == [
        "listener-only",
        "cidr-only",
        "cidr-behind-proxy",
    ]


def test_gets_are_counted_by_path() -> None:
    counts = Counts()
    exchange = Exchange(counts)
    exchange.ask(b"GET /b/wal/1%2F2?x=y HTTP/1.1\r\n")
    exchange.ask(b"Host: h\r\n\r\n")
    exchange.answer(100)
    exchange.answer(50)
    exchange.ask(b"PUT /b/wal/3 HTTP/1.1\r\n\r\n")
    exchange.answer(7)
    exchange.ask(b"\xff rest of a body whose answer came early")
    exchange.answer(7)
    exchange.ask(b"GET /b/wal/1/2 HTTP/1.1\r\n\r\n")
    exchange.answer(1)
    assert counts.taken() == {"/b/wal/1/2": [2, 151]}
    assert counts.taken() == {}


def test_a_zone_with_more_than_one_get_an_object_is_named() -> None:
    row = _row({"a": (1, 10), "b": (2, 40)}, {"a": 10, "b": 20}, {"bytes": 300})
    assert (row["gets_per_object_mean"], row["gets_per_object_max"]) == (1.5, 2)
    assert (row["got_per_stored"], row["served_per_stored"]) == (1.667, 10.0)
    good = {**row, "gets_per_object_mean": 1.0}
    assert too_many({"wal": {"zones": {"az-1": good}}}) == []
    assert too_many({"wal": {"zones": {"az-1": row}}}) == ["wal in az-1: 1.5 GETs an object"]


def test_the_load_balancer_speaks_the_protocol() -> None:
    told = read_proxy_header(header("10.3.0.7"))
    assert "10.3.0.7" in str(told)
