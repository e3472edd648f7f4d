"""The strangers at a door: connections whose client is not authenticated yet. Pure.

A stranger counts as silent until it is known, even if it sends bytes, because bytes cost it
nothing.  So the stranger that has been silent longest is the one that came first.  A crowd has a
bound, and one address may have half of it.  At its own bound an address loses its oldest
connection.  At the bound of the crowd, the address with most strangers loses its oldest
connection.  So however fast one address connects, a client of another address has time to log in.

IPv6 addresses of one /64 count as one: a single host may choose among all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

_PREFIX_BITS: Final = 64


class Crowd:
    """Strangers by number.  Every call takes constant time."""

    def __init__(self) -> None:
        self._origins: dict[int, str] = {}
        self._of: dict[str, OrderedDict[int, None]] = {}
        # The origins by how many strangers they have, to find the largest at once.
        self._by_size: dict[int, OrderedDict[str, None]] = {}
        self._largest = 0

    def __len__(self) -> int:
        return len(self._origins)

    def add(self, number: int, host: str) -> None:
        """Take a stranger in, as the newest."""
        origin = origin_of(host)
        self._origins[number] = origin
        members = self._of.setdefault(origin, OrderedDict())
        members[number] = None
        self._resized(origin, len(members) - 1, len(members))

    def discard(self, number: int) -> bool:
        """Remove a stranger; return whether it was in the crowd."""
        origin = self._origins.pop(number, None)
        if origin is None:
            return False
        members = self._of[origin]
        del members[number]
        if not members:
            del self._of[origin]
        self._resized(origin, len(members) + 1, len(members))
        return True

    def next_to_go(self, most: int, most_of_address: int) -> int | None:
        """Return the stranger that must go while there are more than `most`, or one address has
        more than `most_of_address`; None if all may stay.
        """
        if len(self) <= most and self._largest <= most_of_address:
            return None
        origin = next(iter(self._by_size[self._largest]))
        return next(iter(self._of[origin]))

    def _resized(self, origin: str, before: int, after: int) -> None:
        if before:
            del self._by_size[before][origin]
            if not self._by_size[before]:
                del self._by_size[before]
        if after:
            self._by_size.setdefault(after, OrderedDict())[origin] = None
        if after > self._largest or self._largest not in self._by_size:
            self._largest = after


@lru_cache(maxsize=1024)
def origin_of(host: str) -> str:
    """Return the address, or the network of an IPv6 address, by which a client is counted."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> _PREFIX_BITS << _PREFIX_BITS))
