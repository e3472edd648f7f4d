"""Which gateway serves a group: the live holder of its claim, else the one its id hashes to."""

from __future__ import annotations

from ..rendezvous import choose
from ..rules.groups import group_claim
from ..state.cluster import ClusterState
from ..state.gateways import Gateway


def holder(state: ClusterState, group_id: str) -> Gateway | None:
    """Return the live gateway that holds the group's claim."""
    claim = state.claims.get(group_claim(group_id))
    return state.gateways.live.get(claim.incarnation) if claim is not None else None


def server(state: ClusterState, group_id: str) -> Gateway | None:
    """Return the gateway to send the group's members to; None when no gateway lives."""
    held = holder(state, group_id)
    if held is not None:
        return held
    candidates = {each.node_id: each for each in state.gateways.serving()}
    if not candidates:
        return None
    return candidates[choose(group_id.encode(), sorted(candidates))]


def may_serve(state: ClusterState, incarnation: int) -> bool:
    """Tell whether a gateway takes new work."""
    return any(each.incarnation == incarnation for each in state.gateways.serving())
