"""Finds consumers that read at a gateway of another zone than theirs, and sends them to their own.

If a Fetch carries client.rack, the answer names the gateway recommended to that zone as preferred
read replica, and holds no records (KIP-392).  The client then fetches there: for about five minutes
in librdkafka, for metadata.max.age.ms in the Java client.  After that, or if that gateway does not
answer, it fetches from the leader again.  Meanwhile its next Metadata answer names that gateway as
leader: see client_racks.py.

The Java client returns to the leader at once if its metadata does not name the gateway as a replica
of the partition, and librdkafka backs off when it is moved twice in a minute.  So a consumer is
sent only where it stays: to one of the replicas that Metadata named before its rack was known,
never to a draining gateway, and never from one gateway to another of the same zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate_coordination.state.topics import Topic

from ..network.call import Call
from ..network.client_zone import Source
from .cluster_view import ClusterView, ListenerView
from .zones import MAX_ZONE

RACK_FROM: Final = 11
STAY: Final = -1


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The view of the zone where a consumer should read, and the view that its Metadata showed."""

    _view: ListenerView
    _shown: ListenerView

    def preferred(self, topic: Topic, index: int) -> int:
        """Return the node id of the gateway to read a partition from, or STAY."""
        leader = self._view.placements(topic)[index].leader
        replicas = self._shown.placements(topic)[index].replicas
        if leader in replicas:
            return leader
        of_zone = self._view.gateways.by_zone[self._view.zone or ""]
        return next((each for each in replicas if each in of_zone), STAY)


class ReadSteering:
    """Steers fetches.

    own_zone: of this gateway.  moved: partitions whose fetch was answered with another gateway.
    """

    def __init__(self, view: ClusterView, own_zone: str) -> None:
        self.moved = 0
        self._view = view
        self._own_zone = view.zones.maps.id_of(own_zone)

    def of(self, call: Call, rack: str) -> Elsewhere | None:
        """Note the rack of a fetch; return where to send it, None to serve it here."""
        if call.version < RACK_FROM:
            return None
        zones = self._view.zones
        zones.racks.say(call.peer, call.client_id, rack[:MAX_ZONE])
        if not rack:
            return None
        zone, source = zones.of(call.peer, call.client_id)
        if zone == self._own_zone:
            return None
        view = self._view.of(call.peer.listener, zone)
        if view.zone is None:
            return None
        shown = zone if source is Source.CLIENT_ID else call.peer.origin.zone
        return Elsewhere(view, self._view.of(call.peer.listener, shown))
