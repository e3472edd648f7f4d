"""Who appends for all: a hint that everybody works out for themselves.

Rendezvous hashing over the live gateways that others can reach and that reach the log, those that
drain left out while there are others.  Gateways may disagree for a while, and then two append: the
log's compare-and-set sees to the rest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..placement.rendezvous import choose
from ..state.cluster import ClusterState
from ..state.gateways import Gateway

PEER_LISTENER: Final = "PEER"
"""The listener that gateways which may lead advertise to each other."""

ONLY_FORWARDS_LISTENER: Final = "PEER_ONLY_FORWARDS"
"""That of a gateway which does not reach the log, and must not be asked to append."""

PEER_LISTENERS: Final = frozenset({PEER_LISTENER, ONLY_FORWARDS_LISTENER})
"""They speak HTTP; all others are for clients."""


def candidates(state: ClusterState) -> list[Gateway]:
    """Return the gateways that may lead, by node id."""
    able = [each for each in state.gateways.brokers() if each.endpoint(PEER_LISTENER) is not None]
    return [each for each in able if not each.draining] or able


def leader(state: ClusterState, suspects: Collection[int] = ()) -> Gateway | None:
    """Return who should append, of those that are no suspects (incarnations); None for nobody."""
    able = {each.node_id: each for each in candidates(state) if each.incarnation not in suspects}
    if not able:
        return None
    return able[choose(state.cluster_id.encode(), list(able))]
