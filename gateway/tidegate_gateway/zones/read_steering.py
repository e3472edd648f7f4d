"""Which consumers read at a gateway of another zone than their own, and where to send them.

A fetch that says client.rack is answered with the gateway recommended to its zone as preferred
read replica, and without records (KIP-392).  Clients then fetch there for about five minutes
(librdkafka; in the Java client metadata.max.age.ms), and from the leader again after that or when
that gateway does not answer.  Meanwhile their next Metadata answer names it as leader: see
client_racks.py.

The Java client goes back to the leader at once if its metadata does not name the gateway among the
partition's replicas, and librdkafka backs off when it is moved twice in a minute.  So nobody is
sent to where it would not stay: only to replicas, as it was shown them before its rack was known,
never to a gateway that drains, nor to another one of the same zone.
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
    """The view of a zone where a consumer should read, and the one that it was shown."""

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
    """own_zone: of this gateway.  moved: how many fetches were answered with another gateway."""

    def __init__(self, view: ClusterView, own_zone: str) -> None:
        self.moved = 0
        self._view = view
        self._own_zone = view.zones.maps.id_of(own_zone)

    def of(self, call: Call, rack: str) -> Elsewhere | None:
        """Note the rack of a fetch; return where it should go, None if it is served here."""
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
