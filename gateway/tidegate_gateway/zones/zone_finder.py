"""Finds the zone of a client, by the rules of zones.py and the zones that the gateway knows."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.state.writers.gateways import GatewayTable

from ..network.call import Peer
from ..network.client_zone import NOWHERE, ClientZone, Source
from .client_racks import ClientRacks
from .zone_settings import ZoneMaps
from .zones import MAX_LOOKED_AT, said_in_client_id, without_suffixes

MAX_REMEMBERED: Final = 2000


class ZoneFinder:
    """Finds zones; of() costs two dictionary lookups for a client id that it has seen.

    A zone is known if a gateway has, or ever had, that zone, or if a setting names it.  A known
    zone of a later source takes precedence over an unknown zone of an earlier source, since an
    unknown name may mean anything.  If no source names a known zone, the unknown zone is used, so
    that an operator sees it.
    """

    def __init__(self, maps: ZoneMaps, gateways: GatewayTable) -> None:
        self.maps = maps
        self.racks = ClientRacks()
        self._gateways = gateways
        self._by_client_id: dict[str, tuple[str, bool]] = {}
        self._known: frozenset[str] = frozenset()
        self._version = -1

    def of(self, peer: Peer, client_id: str) -> ClientZone:
        """Return the zone of the client that sends a request."""
        said, is_known = self._said(client_id)
        if is_known:
            return ClientZone(said, Source.CLIENT_ID)
        rack = self.racks.of(peer, client_id)
        if rack in self._known:
            return ClientZone(self.maps.id_of(rack), Source.RACK)
        if peer.origin.zone:
            return peer.origin
        if said:
            return ClientZone(said, Source.CLIENT_ID)
        return ClientZone(rack, Source.RACK) if rack else NOWHERE

    def origin_of(self, listener: str, host: str) -> ClientZone:
        """Return the zone of a connection by its listener, or else its address."""
        zone = self.maps.by_listener.get(listener, "")
        if zone:
            return ClientZone(zone, Source.LISTENER)
        zone = self.maps.by_address.zone_of(host)
        return ClientZone(zone, Source.ADDRESS) if zone else NOWHERE

    def _said(self, client_id: str) -> tuple[str, bool]:
        """Return the zone that a client id names, "" for none, and whether it is known."""
        version = self._gateways.version
        if version != self._version or len(self._by_client_id) > MAX_REMEMBERED:
            self._by_client_id.clear()
            self._known = self._all_known()
            self._version = version
        start = client_id[:MAX_LOOKED_AT]
        found = self._by_client_id.get(start)
        if found is None:
            said = without_suffixes(said_in_client_id(start), self._known)
            found = self.maps.id_of(said), said in self._known
            self._by_client_id[start] = found
        return found

    def _all_known(self) -> frozenset[str]:
        maps = self.maps
        homes = (zone for _, zone in self._gateways.homes.values())
        of_clients = (*maps.by_listener.values(), *maps.by_address.zones)
        return frozenset((*homes, *maps.ids, *maps.ids.values(), *of_clients)) - {""}
