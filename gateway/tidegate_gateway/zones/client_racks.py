"""Which client.rack the connections of a client told, so that its Metadata can be answered by it.

Only a consumer's Fetch carries client.rack, mostly on another connection than its Metadata.  So a
rack is remembered for the client's id while all of its connections that said anything agree, and
one that fetches without a rack says "none".  Programs that never chose an id share one ("rdkafka"),
so connections from other addresses count as other clients.

What is kept goes with the connections: it is bounded as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from ..network.call import Peer

_Client: TypeAlias = tuple[str, str]
"""Client id and source address."""


class ClientRacks:
    """See the module's head."""

    def __init__(self) -> None:
        self._said: dict[_Client, Counter[str]] = {}

    def __len__(self) -> int:
        return len(self._said)

    def say(self, peer: Peer, client_id: str, rack: str) -> None:
        """A connection fetches, with a rack or with none ("")."""
        if peer.said_rack == (client_id, rack):
            return
        self.forget(peer)
        peer.said_rack = (client_id, rack)
        self._said.setdefault((client_id, peer.host), Counter())[rack] += 1

    def forget(self, peer: Peer) -> None:
        """The connection is closed."""
        if peer.said_rack is None:
            return
        client_id, rack = peer.said_rack
        peer.said_rack = None
        client = (client_id, peer.host)
        racks = self._said[client]
        racks[rack] -= 1
        if not racks[rack]:
            del racks[rack]
        if not racks:
            del self._said[client]

    def of(self, peer: Peer, client_id: str) -> str:
        """Return a client's rack: what this connection said, or what all others do; "" for none."""
        if peer.said_rack is not None and peer.said_rack[0] == client_id:
            return peer.said_rack[1]
        racks = self._said.get((client_id, peer.host))
        return next(iter(racks)) if racks is not None and len(racks) == 1 else ""
