"""Which Host headers a server answers if it asks its clients for no login. Pure.

A web page can name this server as its own host: it lets its name resolve to an address of this
machine or its network (DNS rebinding), and the browser then reads answers for the page.  The
browser sends the page's name.  The name of a page is registered in the public DNS, so a server
answers

- IP addresses, as probes use them,
- names without a dot, and below domains that are never registered, as clusters and containers use,
- the names that it was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

ANY: Final = "*"
# RFC 6761, RFC 6762, RFC 8375, ICANN's .internal, and the services of Kubernetes.
NEVER_REGISTERED: Final = ("localhost", "local", "internal", "home.arpa", "svc", "test")


class KnownHosts:
    """names: hosts, or ANY for all; empty names are ignored.  advice: a text for refusals."""

    def __init__(self, names: Iterable[str], advice: str) -> None:
        self._names = {_plain(each) for each in names if each}
        self._advice = advice

    def admits(self, header: str | None) -> bool:
        """Return whether a request with this Host header may be answered; browsers send one."""
        if header is None or ANY in self._names:
            return True
        host = _plain(_without_port(header.strip()))
        return host in self._names or _is_address(host) or _is_private(host)

    @property
    def refusal(self) -> str:
        """The answer to a client that is not admitted."""
        return f"this server is not known by the name in the Host header: {self._advice}\n"


def _plain(host: str) -> str:
    return host.strip("[]").removesuffix(".").lower()


def _without_port(header: str) -> str:
    host, colon, port = header.rpartition(":")
    return host if colon and port.isdecimal() and not host.endswith(":") else header


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_private(host: str) -> bool:
    return "." not in host or any(host.endswith(f".{each}") for each in NEVER_REGISTERED)
