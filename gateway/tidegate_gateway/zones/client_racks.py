"""Remembers the client.rack of each client, so that Metadata can use it.

Only a consumer's Fetch carries client.rack, and mostly on another connection than the consumer's
Metadata.  So the gateway remembers a rack by client id.  It uses the rack as long as all
connections of this client that sent a Fetch have the same one.  A Fetch without a rack counts as
the rack "".  Programs that set no client id share a default ("rdkafka"), so connections from
different addresses count as different clients.

An entry is removed with the client's last connection, so there are never more entries than
connections.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from ..network.call import Peer

_Client: TypeAlias = tuple[str, str]
"""Client id and source address."""


class ClientRacks:
    """The racks of all clients; see the module's head."""

    def __init__(self) -> None:
        self._said: dict[_Client, Counter[str]] = {}

    def __len__(self) -> int:
        return len(self._said)

    def say(self, peer: Peer, client_id: str, rack: str) -> None:
        """Note the rack of a connection's Fetch; "" for none."""
        if peer.said_rack == (client_id, rack):
            return
        self.forget(peer)
        peer.said_rack = (client_id, rack)
        self._said.setdefault((client_id, peer.host), Counter())[rack] += 1

    def forget(self, peer: Peer) -> None:
        """Forget the rack of a closed connection."""
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
        """Return a client's rack; "" for none.

        This is the rack of this connection, or else the rack in which all other connections of the
        client agree.
        """
        if peer.said_rack is not None and peer.said_rack[0] == client_id:
            return peer.said_rack[1]
        racks = self._said.get((client_id, peer.host))
        return next(iter(racks)) if racks is not None and len(racks) == 1 else ""
