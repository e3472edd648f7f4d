"""Entries that advance lease time, and those that only renew a lease."""

from __future__ import annotations

from tidegate_coordination.events.cluster import GatewayRegistered
from tidegate_coordination.state.writers.gateways import GatewayTable

LEASE_MS = 30_000
CLOCK_MS = 1_000_000


def table(*incarnations: int) -> GatewayTable:
    gateways = GatewayTable()
    gateways.lease_ms = LEASE_MS
    for each in incarnations:
        registered = GatewayRegistered(each, each, f"key {each}", "az1", (), "0", 0)
        gateways.fold_registered(registered, CLOCK_MS, 0)
    return gateways


def wrote(gateways: GatewayTable, incarnation: int, uptime_ms: int) -> None:
    gateways.fold_clock(incarnation, CLOCK_MS + uptime_ms, uptime_ms)


def asked(gateways: GatewayTable, incarnation: int, uptime_ms: int) -> None:
    gateways.fold_asked(incarnation, CLOCK_MS + uptime_ms, uptime_ms)


def test_a_reading_that_comes_late_counts_no_time_twice() -> None:
    gateways = table(1)
    for uptime_ms, ask_ms in ((5_000, 1_000), (9_000, 1_000), (9_500, 9_400)):
        wrote(gateways, 1, uptime_ms)
        asked(gateways, 1, ask_ms)
    assert gateways.lease_time_ms == 9_500
    assert gateways.live[1].clock_ms == CLOCK_MS + 9_500


def test_a_log_that_was_away_counts_once_whatever_was_asked_meanwhile() -> None:
    """Each of nine gateways asked during the outage, and the questions arrive one by one."""
    gateways = table(*range(1, 10))
    away_ms = 57_000
    for each in range(1, 10):
        asked(gateways, each, away_ms // 2)
        wrote(gateways, 1, away_ms + each)
        asked(gateways, each, away_ms + each)
    assert gateways.lease_time_ms < LEASE_MS // 3 + 10
    assert not gateways.expired()


def test_a_new_leading_gateway_does_not_advance_log_time_by_a_leap() -> None:
    gateways = table(1, 2)
    for uptime_ms in range(0, 100_000, 5_000):
        wrote(gateways, 1, uptime_ms)
        asked(gateways, 2, uptime_ms)
    wrote(gateways, 2, 96_000)
    assert gateways.lease_time_ms == 95_000
    wrote(gateways, 2, 98_000)
    assert gateways.lease_time_ms == 97_000


def test_a_forwarded_proposal_renews_its_authors_lease() -> None:
    gateways = table(1, 2, 3)
    for uptime_ms in range(0, 50_000, 5_000):
        wrote(gateways, 1, uptime_ms)
        asked(gateways, 2, uptime_ms)
    assert gateways.expired() == [3]


def test_a_snapshot_holds_the_clocks_of_lease_time() -> None:
    gateways = table(1, 2)
    wrote(gateways, 1, 5_000)
    asked(gateways, 1, 9_000)
    copy = GatewayTable()
    copy.decode(gateways.encode())  # type: ignore[arg-type]
    copy.lease_ms = LEASE_MS
    for each in (gateways, copy):
        wrote(each, 1, 10_000)
    assert copy.encode() == gateways.encode()


def test_a_snapshot_of_an_older_release_is_counted_from() -> None:
    gateways = table(1)
    wrote(gateways, 1, 5_000)
    encoded = gateways.encode()
    assert isinstance(encoded, dict)
    del encoded["wrote"]
    copy = GatewayTable()
    copy.decode(encoded)
    wrote(copy, 1, 10_000)
    assert copy.lease_time_ms == 10_000
