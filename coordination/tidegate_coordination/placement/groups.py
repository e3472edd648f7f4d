"""Which gateway serves a group: the live holder of its claim, else the one its id hashes to."""

from __future__ import annotations

from collections.abc import Mapping

from ..rules.consumer_groups.groups import group_claim
from ..state.cluster import ClusterState
from ..state.writers.gateways import Gateway
from .rendezvous import choose


def holder(state: ClusterState, group_id: str) -> Gateway | None:
    """Return the live gateway that holds the group's claim."""
    claim = state.claims.get(group_claim(group_id))
    return state.gateways.live.get(claim.incarnation) if claim is not None else None


def candidates(
    state: ClusterState, absent: frozenset[int] = frozenset(), listener: str | None = None
) -> dict[int, Gateway]:
    """Return the gateways that share the groups without a claim, by node id.

    absent: incarnations that do not answer; they get no group as long as others serve.
    listener: the client's; gateways without that listener are left out.  None: any listener.
    """
    serving = state.gateways.serving()
    if listener is not None:
        serving = [each for each in serving if each.endpoint(listener) is not None]
    present = [each for each in serving if each.incarnation not in absent]
    return {each.node_id: each for each in present or serving}


def server(state: ClusterState, group_id: str, among: Mapping[int, Gateway]) -> Gateway | None:
    """Return the gateway that serves the group's members; None if no gateway is live.

    among: see candidates().  A group with a claim waits for the claim's holder, even if the holder
    is absent: no other gateway may serve the group before the holder's lease expires.
    """
    return holder(state, group_id) or chosen(group_id, among)


def chosen(group_id: str, among: Mapping[int, Gateway]) -> Gateway | None:
    """Return the gateway that a group's id hashes to."""
    return among[choose(group_id.encode(), list(among))] if among else None


def may_serve(state: ClusterState, incarnation: int) -> bool:
    """Return whether a gateway takes new work."""
    return any(each.incarnation == incarnation for each in state.gateways.serving())
