"""The client for which a job works."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from ..network.call import ANONYMOUS, Call, Cost, Peer

_PREFIX_BITS: Final = 64
"""The leading bits that identify an IPv6 client: it chooses the other bits itself."""


def _is_here() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a job.

    key: identifies the client, which cannot choose it freely; jobs with the same key take turns as
    one client.  is_gone: returns whether the client has closed its connection.  cost: counts what
    the request uses of its quotas; None if no quota applies.
    """

    key: Hashable
    is_gone: Callable[[], bool] = _is_here
    cost: Cost | None = None


def client_of(call: Call) -> Client:
    """Return the client of a request."""
    return Client(key_of(call.peer), call.is_gone, call.cost)


def key_of(peer: Peer) -> Hashable:
    """Return the principal of a client, or its address if it has none.

    A client chooses its client id, its ports and the end of an IPv6 address, so none of these is
    part of the key.
    """
    if peer.principal != ANONYMOUS:
        return peer.principal
    try:
        address = ip_address(peer.host)
    except ValueError:
        return peer.host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return int(address) >> _PREFIX_BITS
    return peer.host
