"""Marks of gateways that drain, in the state and its snapshots."""

from __future__ import annotations

import pytest

from tidegate_coordination.events.cluster import (
    Endpoint,
    GatewayDrained,
    GatewayDraining,
    GatewayExpired,
    GatewayRegistered,
    GatewayResumed,
)
from tidegate_coordination.rules.draining import DrainGateway, Marked, ReportDrained, ResumeGateway
from tidegate_coordination.rules.gateways import TakeClaim
from tidegate_coordination.rules.proposal import View
from tidegate_coordination.state.broken import StateBroken
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.gateways import GatewayTable


def table(*node_ids: int) -> GatewayTable:
    """Gateways whose incarnations are 1, 2, ..."""
    gateways = GatewayTable()
    for incarnation, node_id in enumerate(node_ids, 1):
        points = (Endpoint("PLAINTEXT", "h", 1),)
        event = GatewayRegistered(incarnation, node_id, f"k{node_id}", "az", points, "0", 0)
        gateways.fold_registered(event, clock_ms=0)
    return gateways


def view(gateways: GatewayTable, writer: int) -> View:
    state = ClusterState()
    state.gateways.decode(gateways.encode())  # type: ignore[arg-type]
    return View(state, writer, 0, 0)


def test_marks_come_and_go_and_are_in_snapshots() -> None:
    gateways = table(1, 2)
    gateways.fold_draining(GatewayDraining(1, stops=True))
    gateways.fold_draining(GatewayDraining(1))
    gateways.fold_drained(GatewayDrained(1))
    copy = GatewayTable()
    copy.decode(gateways.encode())  # type: ignore[arg-type]
    for each in (gateways, copy):
        me = each.live[1]
        assert (me.draining, me.stops, me.is_drained) == (True, True, True)
        assert each.sends_away(1)
        assert not each.sends_away(2)
        each.fold_resumed(GatewayResumed(1))
        assert (me.draining, me.stops, me.is_drained) == (False, False, False)
        assert not each.sends_away(1)


def test_a_snapshot_without_the_marks_is_read() -> None:
    encoded = table(1).encode()
    assert isinstance(encoded, dict)
    encoded["live"] = [row[:-2] for row in encoded["live"]]
    copy = GatewayTable()
    copy.decode(encoded)
    assert (copy.live[1].stops, copy.live[1].is_drained) == (False, False)


def test_a_gateway_that_does_not_drain_can_neither_be_resumed_nor_drained() -> None:
    for fold, event in (
        (table(1).fold_resumed, GatewayResumed(1)),
        (table(1).fold_drained, GatewayDrained(1)),
        (table(1).fold_drained, GatewayDrained(2)),
    ):
        with pytest.raises(StateBroken):
            fold(event)  # type: ignore[arg-type]


def test_an_ended_gateway_refuses_clients_while_others_serve() -> None:
    gateways = table(1, 2)
    gateways.fold_expired(GatewayExpired(1))
    assert gateways.sends_away(1)
    gateways.fold_draining(GatewayDraining(2))
    assert not gateways.sends_away(2)
    assert not gateways.sends_away(1)


def test_an_operators_wishes() -> None:
    gateways = table(1, 2, -5)
    assert DrainGateway(3).decide(view(gateways, 0)).answer is Marked.UNKNOWN
    assert DrainGateway(-5).decide(view(gateways, 0)).answer is Marked.UNKNOWN
    assert ResumeGateway(1).decide(view(gateways, 0)).answer is Marked.ALREADY
    decided = DrainGateway(2).decide(view(gateways, 0))
    assert decided == decided.__class__((GatewayDraining(2),), Marked.DONE)
    gateways.fold_draining(GatewayDraining(2))
    assert DrainGateway(2).decide(view(gateways, 1)).answer is Marked.ALREADY
    assert DrainGateway(2, stops=True).decide(view(gateways, 1)).answer is Marked.DONE
    assert ResumeGateway(2).decide(view(gateways, 1)).answer is Marked.DONE
    assert list(ReportDrained().decide(view(gateways, 2)).events) == [GatewayDrained(2)]
    assert not ReportDrained().decide(view(gateways, 1)).events


def test_a_draining_gateway_takes_no_claim_while_others_serve() -> None:
    gateways = table(1, 2)
    gateways.fold_draining(GatewayDraining(1))
    assert TakeClaim("group/g").decide(view(gateways, 1)).answer is None
    assert TakeClaim("group/g").decide(view(gateways, 2)).answer == 1
    gateways.fold_draining(GatewayDraining(2))
    assert TakeClaim("group/g").decide(view(gateways, 1)).answer == 1
