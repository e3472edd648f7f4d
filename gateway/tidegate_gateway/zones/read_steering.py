"""Finds consumers that read at a gateway of another zone, and sends them to their own zone.

If a Fetch carries client.rack, the answer names the gateway recommended to that zone as preferred
read replica, and holds no records (KIP-392).  The client then fetches from that gateway: librdkafka
for about five minutes, the Java client for metadata.max.age.ms.  After that, or if that gateway
does not answer, the client fetches from the leader again.  By then, its next Metadata answer names
that gateway as leader: see client_racks.py.

The Java client returns to the leader at once if its metadata does not name the gateway as a replica
of the partition. librdkafka backs off if it is moved twice in a minute.  So a consumer is sent only
to gateways where it stays: to one of the replicas that Metadata named before its rack was known.
It is never sent to a draining gateway, nor from one gateway to another of the same zone.

A gateway that clients should leave answers an error, and most consumers then return to the leader
that Metadata names. franz-go does not return if the leader is the same as before: it keeps using
its preferred read replica for 30 minutes, even if this gateway is gone (version 1.22, also with
Kafka).  But it accepts a preferred read replica from an answer with an error.  So if a consumer
asks again, the answer names one, but only every second answer does: franz-go waits after an error
alone, but not between two moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate_coordination.state.topics import Topic

from ..network.call import Call
from ..network.client_zone import Source
from .cluster_view import ClusterView, ListenerView
from .placement import NO_LEADER
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


@dataclass(frozen=True, slots=True)
class Away:
    """The cluster as shown to a consumer that should leave this gateway.  own_id: this gateway."""

    _view: ListenerView
    _own_id: int

    def preferred(self, topic: Topic, index: int) -> int:
        """Return the node id of the gateway to read a partition from, or STAY."""
        leader = self._view.placements(topic)[index].leader
        return leader if leader not in (self._own_id, NO_LEADER) else STAY


class ReadSteering:
    """Steers fetches.

    own_id, own_zone: node id and zone of this gateway.  moved: the number of fetched partitions
    that were answered with another gateway.
    """

    def __init__(self, view: ClusterView, own_id: int, own_zone: str) -> None:
        self.moved = 0
        self._view = view
        self._own_id = own_id
        self._own_zone = view.zones.maps.id_of(own_zone)

    def of(self, call: Call, rack: str) -> Elsewhere | None:
        """Note the rack of a fetch; return where to send the client, or None to serve it here."""
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

    def away(self, call: Call, rack: str) -> Away | None:
        """Return where to send a consumer with a rack that fetches again but should leave."""
        if call.version < RACK_FROM or not rack:
            return None
        peer = call.peer
        asks_again, peer.was_fetch_refused = peer.was_fetch_refused, not peer.was_fetch_refused
        if not asks_again:
            return None
        zone = self._view.zones.of(peer, call.client_id).zone
        return Away(self._view.of(peer.listener, zone), self._own_id)
