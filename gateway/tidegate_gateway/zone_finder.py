"""Finds the zone of a client, by the rules of zones.py and what the cluster and settings know."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.state.gateways import GatewayTable

from .call import Peer
from .client_racks import ClientRacks
from .zone_settings import ZoneMaps
from .zones import (
    MAX_LOOKED_AT,
    NOWHERE,
    ClientZone,
    Source,
    said_in_client_id,
    without_suffixes,
)

MAX_REMEMBERED: Final = 2000


class ZoneFinder:
    """of() costs two dictionary look-ups, once a client id was seen.

    A zone is known if a gateway has, or ever had, that zone, or a setting names it.
    """

    def __init__(self, maps: ZoneMaps, gateways: GatewayTable) -> None:
        self.maps = maps
        self.racks = ClientRacks()
        self._gateways = gateways
        self._by_client_id: dict[str, str] = {}
        self._known: frozenset[str] = frozenset()
        self._version = -1

    def of(self, peer: Peer, client_id: str) -> ClientZone:
        """Return the zone of whoever sends a request."""
        said = self._said(client_id)
        if said:
            return ClientZone(said, Source.CLIENT_ID)
        rack = self.racks.of(peer, client_id)
        if rack:
            return ClientZone(self.maps.id_of(rack), Source.RACK)
        return peer.origin

    def origin_of(self, listener: str, host: str) -> ClientZone:
        """Return the zone of a connection as far as its listener or address tell it."""
        zone = self.maps.by_listener.get(listener, "")
        if zone:
            return ClientZone(zone, Source.LISTENER)
        zone = self.maps.by_address.zone_of(host)
        return ClientZone(zone, Source.ADDRESS) if zone else NOWHERE

    def _said(self, client_id: str) -> str:
        version = self._gateways.version
        if version != self._version or len(self._by_client_id) > MAX_REMEMBERED:
            self._by_client_id.clear()
            self._known = self._all_known()
            self._version = version
        start = client_id[:MAX_LOOKED_AT]
        zone = self._by_client_id.get(start)
        if zone is None:
            said = said_in_client_id(start)
            zone = self.maps.id_of(without_suffixes(said, self._known)) if said else ""
            self._by_client_id[start] = zone
        return zone

    def _all_known(self) -> frozenset[str]:
        maps = self.maps
        homes = (zone for _, zone in self._gateways.homes.values())
        return frozenset((*homes, *maps.ids, *maps.ids.values(), *maps.by_listener.values()))
