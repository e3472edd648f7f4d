"""How long a gateway waits before it writes a topic back, since another one may still do so."""

from __future__ import annotations

from tidegate_gateway.migration.back.takeovers import Takeovers

LEASE = 30.0
OLD, NEW = b"o" * 16, b"n" * 16


def looked(takeovers: Takeovers, now: float, gateways: tuple[int, ...] = (1, 2)) -> None:
    takeovers.look(gateways, [OLD], now, is_live=True)


def test_a_topic_that_began_under_the_present_gateways_does_not_wait() -> None:
    takeovers = Takeovers()
    looked(takeovers, 100.0)
    assert takeovers.pause_seconds(NEW, 100.0, LEASE) == 0
    assert takeovers.pause_seconds(OLD, 100.0, LEASE) == LEASE


def test_a_topic_waits_for_the_rest_of_a_lease_since_the_gateways_changed() -> None:
    takeovers = Takeovers()
    looked(takeovers, 100.0)
    looked(takeovers, 110.0)
    assert takeovers.pause_seconds(OLD, 110.0, LEASE) == 20
    looked(takeovers, 120.0, (1, 3))
    assert takeovers.pause_seconds(OLD, 125.0, LEASE) == 25


def test_a_topic_that_goes_back_again_under_the_same_gateways_does_not_wait() -> None:
    takeovers = Takeovers()
    looked(takeovers, 100.0)
    assert takeovers.pause_seconds(OLD, 130.0, LEASE) == 0
    looked(takeovers, 131.0)
    assert takeovers.pause_seconds(OLD, 131.0, LEASE) == 0


def test_a_gateway_that_could_not_write_for_a_while_waits_a_lease() -> None:
    takeovers = Takeovers()
    looked(takeovers, 100.0)
    takeovers.look((1, 2), [OLD], 200.0, is_live=False)
    looked(takeovers, 201.0)
    assert takeovers.pause_seconds(OLD, 201.0, LEASE) == 29
    assert takeovers.pause_seconds(NEW, 201.0, LEASE) == 0
