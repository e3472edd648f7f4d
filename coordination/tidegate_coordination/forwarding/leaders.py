"""The leading gateway, which appends for others: a hint that each gateway computes for itself.

The leading gateway is chosen by rendezvous hashing over the live gateways that reach the log and
that others can reach.  Draining gateways count only if there are no others.  If gateways disagree
for a while, two lead, and the log's compare-and-set decides between their appends.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..placement.rendezvous import choose
from ..state.cluster import ClusterState
from ..state.writers.gateways import Gateway

PEER_LISTENER: Final = "PEER"
"""The listener that a gateway advertises to the others if it may lead."""

ONLY_FORWARDS_LISTENER: Final = "PEER_ONLY_FORWARDS"
"""The listener of a gateway that does not reach the log and cannot append."""

PEER_LISTENERS: Final = frozenset({PEER_LISTENER, ONLY_FORWARDS_LISTENER})
"""They speak HTTP; all other listeners are for clients."""


def candidates(state: ClusterState) -> list[Gateway]:
    """Return the gateways that may lead, by node id."""
    able = [each for each in state.gateways.brokers() if each.endpoint(PEER_LISTENER) is not None]
    return [each for each in able if not each.draining] or able


def leader(state: ClusterState, suspects: Collection[int] = ()) -> Gateway | None:
    """Return the gateway that should append; None for none.  suspects: incarnations to skip."""
    able = {each.node_id: each for each in candidates(state) if each.incarnation not in suspects}
    if not able:
        return None
    return able[choose(state.cluster_id.encode(), list(able))]
