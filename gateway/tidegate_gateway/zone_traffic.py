"""How many bytes clients produce and fetch in their own zone, and who crosses zones.

The hot paths only add to two numbers of their connection (call.Peer).  Those are booked, under the
client's zone as it is known then, when somebody asks for the figures and when the connection ends.

Clients are told apart by client id.  The first MAX_CLIENTS have figures of their own; what the
others do is booked for all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from .call import Peer
from .zone_finder import ZoneFinder
from .zones import NOWHERE, ClientZone

MAX_CLIENTS: Final = 1000
MAX_NAME: Final = 256
OTHERS: Final = "other clients"


class Kind(Enum):
    """Where a client's bytes went."""

    SAME = "same"
    CROSS = "cross"
    UNKNOWN = "unknown"


def _no_bytes() -> dict[Kind, int]:
    return dict.fromkeys(Kind, 0)


@dataclass(slots=True)
class Bytes:
    """Bytes of batches, by kind."""

    produced: dict[Kind, int] = field(default_factory=_no_bytes)
    fetched: dict[Kind, int] = field(default_factory=_no_bytes)


@dataclass(slots=True)
class ClientTraffic:
    """One client id.  zone: as it was known last."""

    client_id: str
    zone: ClientZone = NOWHERE
    bytes: Bytes = field(default_factory=Bytes)


class ZoneTraffic:
    """See the module's head."""

    def __init__(self, finder: ZoneFinder, own_zone: str) -> None:
        self.own_zone = finder.maps.id_of(own_zone)
        self.totals = Bytes()
        self.clients: dict[str, ClientTraffic] = {}
        self._finder = finder

    def book_all(self, peers: Iterable[Peer]) -> None:
        """Book what the open connections did, before the figures are read."""
        for peer in peers:
            self.book(peer)

    def book(self, peer: Peer) -> None:
        """Book what a connection did since it was booked last."""
        produced, fetched = peer.produced_bytes, peer.fetched_bytes
        if not produced and not fetched:
            return
        peer.produced_bytes = peer.fetched_bytes = 0
        found = self._finder.of(peer, peer.client_id or "")
        kind = self._kind(found.zone)
        client = self._client(peer.client_id or "")
        client.zone = found if client.client_id != OTHERS else NOWHERE
        for each in (self.totals, client.bytes):
            each.produced[kind] += produced
            each.fetched[kind] += fetched

    def _kind(self, zone: str) -> Kind:
        if not zone:
            return Kind.UNKNOWN
        return Kind.SAME if zone == self.own_zone else Kind.CROSS

    def _client(self, client_id: str) -> ClientTraffic:
        name = client_id[:MAX_NAME]
        client = self.clients.get(name)
        if client is None:
            if len(self.clients) >= MAX_CLIENTS:
                name = OTHERS
            client = self.clients.setdefault(name, ClientTraffic(name))
        return client
