"""Obstacles to changes that move topics between a link's source and this cluster."""

from __future__ import annotations

from ...events.metadata_versions import FEATURE_NAME, SWITCHES
from ...state.cluster import ClusterState


def obstacle_of(state: ClusterState, link: str) -> str:
    """Return why no topic of a link can be switched or return; "" for nothing."""
    if state.metadata_version < SWITCHES:
        return f"the cluster's {FEATURE_NAME} is below {SWITCHES}: raise it first"
    if link not in state.links.by_name:
        return "there is no such link"
    if link in state.switches.on_hold:
        return "the log was restored: confirm the link with `tidegate link add --replace`"
    return ""
