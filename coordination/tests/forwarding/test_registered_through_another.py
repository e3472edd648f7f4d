"""A gateway that registers through another one is not dated by the other gateway's uptime."""

from __future__ import annotations

from typing import Any

from tidegate_coordination.events.cluster import GatewayRegistered, GatewayRenewed, Proposed
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.state.cluster import ClusterState

CLOCK_MS, UPTIME_MS, LATE_UPTIME_MS = 10**9, 10**8, 5_000


def entry(state: ClusterState, after_ms: int, *events: Any, leap_ms: int = 0) -> None:
    """Fold an entry of the first gateway; leap_ms: the error of its wall clock."""
    writer = 1 if state.position else 0
    clock_ms = CLOCK_MS + after_ms + leap_ms
    made = Entry(1, b"n" * 12, writer, clock_ms, tuple(events), UPTIME_MS + after_ms)
    state.apply(state.position + 1, made)


def registered(number: int) -> GatewayRegistered:
    return GatewayRegistered(number, number, f"k{number}", "", (), "0", 0)


def test_log_time_advances_while_a_gateway_registers_through_another() -> None:
    """The host of the appending gateway has been up for longer than the author's."""
    state = ClusterState()
    entry(state, 0, registered(1))
    entry(state, 1, registered(2))
    for number in range(1, 100):
        after_ms = number * 5000
        clocks = (CLOCK_MS + after_ms, LATE_UPTIME_MS + after_ms)
        entry(state, after_ms, Proposed(2, number, number - 1, *clocks, b""), GatewayRenewed(0))
    assert state.gateways.live[2].clock_ms == CLOCK_MS + 99 * 5000
    assert state.log_time_ms > CLOCK_MS + 400_000


def test_a_leaping_wall_clock_is_ignored_if_a_gateway_registers_by_itself() -> None:
    """Lease time follows the uptime, not the wall clock."""
    state = ClusterState()
    entry(state, 0, registered(1))
    entry(state, 1000, GatewayRenewed(0), leap_ms=5000)
    assert state.gateways.lease_time_ms == 1000
