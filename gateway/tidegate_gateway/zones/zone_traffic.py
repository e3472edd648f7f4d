"""Counts the bytes that clients produce and fetch in their own zone and across zones.

The hot paths only add to two numbers of their connection (call.Peer).  When the figures are read,
and when the connection ends, these numbers are added to the figures of the zone that the client has
at that moment.

Clients are distinguished by client id.  At most MAX_CLIENTS have figures of their own.  If one more
client comes, the figures of the client that crossed zones least are added to those of OTHERS. So
random client ids do not hide the clients that cross zones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush, heapreplace
from typing import Final

from ..network.call import Peer
from ..network.client_zone import NOWHERE, ClientZone
from .zone_finder import ZoneFinder

MAX_CLIENTS: Final = 1000
MAX_NAME: Final = 256
OTHERS: Final = "other clients"


class Kind(Enum):
    """Whether a client's bytes stayed in its zone."""

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
    """The figures of one client id.  zone: the zone that was found last."""

    client_id: str
    zone: ClientZone = NOWHERE
    bytes: Bytes = field(default_factory=Bytes)

    def crossing(self) -> tuple[int, int]:
        """Return how many bytes crossed zones, and how many may have, as the zone is unknown."""
        made, read = self.bytes.produced, self.bytes.fetched
        return made[Kind.CROSS] + read[Kind.CROSS], made[Kind.UNKNOWN] + read[Kind.UNKNOWN]


class ZoneTraffic:
    """The figures of all clients; see the module's head."""

    def __init__(
        self,
        finder: ZoneFinder,
        own_zone: str,
        on_crossing: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Begin without figures.

        on_crossing: called with a client id, its bytes across zones, and its bytes while its zone
        is unknown.
        """
        self.own_zone = finder.maps.id_of(own_zone)
        self.totals = Bytes()
        self.clients: dict[str, ClientTraffic] = {}
        self._finder = finder
        self._on_crossing = on_crossing
        # A heap that has each client except OTHERS once: an earlier value of crossing(), a number
        # to break ties, and the client's name.
        self._by_crossing: list[tuple[tuple[int, int], int, str]] = []
        self._came = 0

    def book_all(self, peers: Iterable[Peer]) -> None:
        """Count the bytes of the open connections, before the figures are read."""
        for peer in peers:
            self.book(peer)

    def book(self, peer: Peer) -> None:
        """Count the bytes of a connection since it was last counted."""
        produced, fetched = peer.produced_bytes, peer.fetched_bytes
        if not produced and not fetched:
            return
        peer.produced_bytes = peer.fetched_bytes = 0
        found = self._finder.of(peer, peer.client_id or "")
        kind = self._kind(found.zone)
        client = self._client(peer.client_id or "")
        client.zone = found if client.client_id != OTHERS else NOWHERE
        if self._on_crossing is not None and kind is not Kind.SAME:
            size_bytes = produced + fetched
            is_cross = kind is Kind.CROSS
            self._on_crossing(
                peer.client_id or "", size_bytes * is_cross, size_bytes * (not is_cross)
            )
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
            client = self.clients[name] = ClientTraffic(name)
            if name != OTHERS:
                self._make_room()
                self._came += 1
                heappush(self._by_crossing, (client.crossing(), self._came, name))
        return client

    def _make_room(self) -> None:
        """If there are too many clients, drop the one that crossed zones least.

        crossing() only grows, so the first up-to-date element of the heap is the least of all.  If
        an element is not up to date, its client was counted since its last look.  So there are
        never more such looks than counts.
        """
        if len(self._by_crossing) < MAX_CLIENTS:
            return
        while True:
            then, number, name = self._by_crossing[0]
            now = self.clients[name].crossing()
            if now == then:
                break
            heapreplace(self._by_crossing, (now, number, name))
        heappop(self._by_crossing)
        self._book_for_others(self.clients.pop(name).bytes)

    def _book_for_others(self, gone: Bytes) -> None:
        others = self._client(OTHERS).bytes
        for kind in Kind:
            others.produced[kind] += gone.produced[kind]
            others.fetched[kind] += gone.fetched[kind]
