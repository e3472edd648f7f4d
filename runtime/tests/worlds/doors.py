"""Connections at doors, without a listener."""

from __future__ import annotations

from collections.abc import Callable

from tidegate_runtime.doors.slots import ConnectionSlots, Visitor
from tidegate_runtime.http.hosts import KnownHosts

NO_HOSTS = KnownHosts((), "use an IP address")


def entered(
    slots: ConnectionSlots, host: str = "host", close: Callable[[], None] = lambda: None
) -> Visitor:
    """Enter a door that admits this address."""
    visitor = slots.enter(host, close)
    assert visitor is not None
    return visitor


def alone() -> Visitor:
    """Return the only visitor of a door."""
    return entered(ConnectionSlots(1, beside=1))
