"""Connections to hosts, whose names are looked up in a few separate threads.

A name server that hangs blocks a thread for up to half a minute, even if no task waits for the
answer any more.  So lookups do not use the threads for files and metrics, which would all block.
All tasks that need the addresses of one name wait for the same thread.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import trio

from .http.client import Connect

THREADS: Final = 8
# A connection usually opens at once or never, so after this time the next address is tried.
ADDRESS_SECONDS: Final = 1.0

LookUp: TypeAlias = Callable[[str], list[str]]
"""Host -> addresses, at least one.  Blocks; raises OSError or UnicodeError."""


def look_up(host: str) -> list[str]:
    """See LookUp."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class _Question:
    """A lookup under way, which all tasks that need the name wait for."""

    def __init__(self) -> None:
        self.is_answered = trio.Event()
        self.addresses: list[str] = []
        self.error: Exception | None = None


class NameLookups:
    """Dials hosts; their names are looked up in separate threads."""

    def __init__(self, look_up: LookUp = look_up) -> None:
        self._look_up = look_up
        self._threads = trio.CapacityLimiter(THREADS)
        # Lookups by name: one thread for each, even if no task waits for it any more.
        self._under_way: dict[str, _Question] = {}

    def dial(self, host: str, port: int) -> Connect:
        """Return a function that opens connections; it raises OSError."""
        return partial(self._connect, host, port)

    async def _connect(self, host: str, port: int) -> trio.abc.Stream:
        *others, last = await self._addresses(host)
        for address in others:
            try:
                with trio.fail_after(ADDRESS_SECONDS):
                    return await trio.open_tcp_stream(address, port)
            except (OSError, trio.TooSlowError):
                continue  # the error of the last address is raised
        return await trio.open_tcp_stream(last, port)

    async def _addresses(self, host: str) -> list[str]:
        if _is_address(host):
            return [host]
        question = self._under_way.get(host)
        if question is None:
            question = self._under_way[host] = _Question()
            # A system task: the first caller may be cancelled before the others.
            trio.lowlevel.spawn_system_task(self._answer, host, question)
        await question.is_answered.wait()
        if question.error is not None:
            raise OSError(str(question.error)) from question.error
        return question.addresses

    async def _answer(self, host: str, question: _Question) -> None:
        try:
            question.addresses = await trio.to_thread.run_sync(
                self._look_up, host, abandon_on_cancel=True, limiter=self._threads
            )
        # the callers raise the error; raised here, it would end the process
        except Exception as error:
            question.error = error
        finally:
            del self._under_way[host]
            question.is_answered.set()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
