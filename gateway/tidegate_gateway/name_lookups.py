"""Connections to other gateways, whose names are looked up in few threads kept for that.

A name server that hangs holds whoever asks it for up to half a minute, even after nobody waits for
the answer.  Threads that files and metrics need are not spent on that: all would stand still.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import trio

from tidegate_coordination.http.client import Connect

THREADS: Final = 8
# A connection is made at once or, as a rule, never; of several addresses the next is tried then.
ADDRESS_SECONDS: Final = 1.0

LookUp: TypeAlias = Callable[[str, int], list[str]]
"""Host and port -> addresses, at least one.  Blocks; raises OSError or UnicodeError."""


def look_up(host: str, port: int) -> list[str]:
    """See LookUp."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class NameLookups:
    """See the module's head."""

    def __init__(self, look_up: LookUp = look_up) -> None:
        self._look_up = look_up
        self._threads = trio.CapacityLimiter(THREADS)
        # By threads that nobody waits for any more; a name takes no second one.
        self._under_way: set[tuple[str, int]] = set()

    def dial(self, host: str, port: int) -> Connect:
        """Return what opens connections; each raises OSError or UnicodeError."""
        return partial(self._connect, host, port)

    async def _connect(self, host: str, port: int) -> trio.abc.Stream:
        *others, last = await self._addresses(host, port)
        for address in others:
            try:
                with trio.fail_after(ADDRESS_SECONDS):
                    return await trio.open_tcp_stream(address, port)
            except (OSError, trio.TooSlowError):
                continue  # the last one tells what is wrong
        return await trio.open_tcp_stream(last, port)

    async def _addresses(self, host: str, port: int) -> list[str]:
        if _is_address(host):
            return [host]
        if (host, port) in self._under_way:
            raise OSError(f"{host} is still being looked up")
        return await trio.to_thread.run_sync(
            self._ask, host, port, abandon_on_cancel=True, limiter=self._threads
        )

    def _ask(self, host: str, port: int) -> list[str]:
        """Look a name up; in a thread."""
        self._under_way.add((host, port))
        try:
            return self._look_up(host, port)
        finally:
            self._under_way.discard((host, port))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
