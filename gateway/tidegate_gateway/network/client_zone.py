"""The zone of a client, and how the gateway knows it; zones.py finds it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Source(Enum):
    """What told the zone."""

    CLIENT_ID = "client.id"
    RACK = "client.rack"
    LISTENER = "listener"
    ADDRESS = "address"
    NOTHING = "nothing"


class ClientZone(NamedTuple):
    """zone: "" where it is not known."""

    zone: str
    source: Source


NOWHERE: Final = ClientZone("", Source.NOTHING)
