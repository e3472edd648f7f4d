"""The zone of a client, and the gateway's source for it; zones.py determines it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Source(Enum):
    """The source that names the zone."""

    CLIENT_ID = "client.id"
    RACK = "client.rack"
    LISTENER = "listener"
    ADDRESS = "address"
    NOTHING = "nothing"


class ClientZone(NamedTuple):
    """zone: "" if it is not known."""

    zone: str
    source: Source


NOWHERE: Final = ClientZone("", Source.NOTHING)
