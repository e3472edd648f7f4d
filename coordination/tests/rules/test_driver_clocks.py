"""Drivers of the pipeline neither set the cluster's time nor keep a gateway from setting it."""

from __future__ import annotations

from tests.rules.test_wal_rules import World
from tidegate_coordination.events.cluster import GatewayExpired, GatewayRegistered
from tidegate_coordination.state.folds.cluster import MAX_LEAP_MS

DAY_MS = 86_400_000


def registered(incarnation: int, node_id: int, supersedes: int = 0) -> GatewayRegistered:
    return GatewayRegistered(incarnation, node_id, f"key {node_id}", "", (), "0", supersedes)


def test_a_lone_driver_does_not_advance_log_time() -> None:
    world = World()
    world.apply(GatewayExpired(1))
    before_ms = world.state.log_time_ms
    world.clock_ms += DAY_MS
    world.apply(registered(2, -5), writer=0)
    assert world.state.log_time_ms == before_ms
    assert world.state.expiry_resumes_at_ms == 0
    world.check_replay()


def test_a_gateway_that_starts_beside_a_dead_driver_is_trusted() -> None:
    world = World()
    world.apply(registered(2, -5), writer=0)
    world.apply(GatewayExpired(1))
    world.clock_ms += DAY_MS
    world.apply(registered(3, 1), writer=0)
    assert world.state.log_time_ms == world.clock_ms
    assert world.state.expiry_resumes_at_ms == world.clock_ms + MAX_LEAP_MS
    world.check_replay()


def test_a_gateway_that_replaces_its_earlier_incarnation_is_trusted() -> None:
    world = World()
    world.apply(registered(2, -5), writer=0)
    world.clock_ms += DAY_MS
    world.apply(registered(3, 1, supersedes=1), writer=0)
    assert world.state.log_time_ms == world.clock_ms
    world.check_replay()


def test_a_driver_that_starts_beside_a_gateway_sets_no_time() -> None:
    world = World()
    before_ms = world.state.log_time_ms
    world.clock_ms += DAY_MS
    world.apply(registered(2, -5), writer=0)
    assert world.state.log_time_ms == before_ms
    world.check_replay()


def test_two_gateways_trust_no_clock_of_one_alone() -> None:
    world = World()
    before_ms = world.state.log_time_ms
    world.clock_ms += DAY_MS
    world.apply(registered(2, 2), writer=0)
    assert world.state.log_time_ms == before_ms
