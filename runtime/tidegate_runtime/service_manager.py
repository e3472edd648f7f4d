"""Tells the service manager, systemd, what this process does and that its event loop runs.

Each message is one datagram to the socket that NOTIFY_SOCKET names (sd_notify(3)).  A unit with
WatchdogSec= ends a process whose messages stop; a task of the event loop sends them, so they stop
when the loop does.  Each message repeats the whole state, so a lost message does no harm.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import trio

# sd_watchdog_enabled(3): "every half of the time".
FEEDS_PER_PERIOD: Final = 2
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceManager:
    """The state of one process, as its service manager knows it.

    Args:
      send: tries to send one message; never waits. watchdog_seconds: how long the service manager
      waits for a message of feed(); None for no watchdog.
    """

    def __init__(self, send: Callable[[str], None], watchdog_seconds: float | None) -> None:
        self._send = send
        self._watchdog_seconds = watchdog_seconds
        self._state: tuple[str, ...] = ()
        self.starting("starting")

    def starting(self, status: str) -> None:
        """Say what the process waits for; its start may last as long as the event loop runs."""
        state = [f"STATUS={status}"]
        if self._watchdog_seconds is not None:
            state.append(f"EXTEND_TIMEOUT_USEC={round(self._watchdog_seconds * 1e6)}")
        self._enter(*state)

    def ready(self, status: str) -> None:
        """Say that clients may connect."""
        self._enter("READY=1", f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """Say that the process is about to end."""
        self._enter("STOPPING=1", f"STATUS={status}")

    async def feed(self) -> None:
        """Say repeatedly that the event loop runs; return at once if there is no watchdog."""
        if self._watchdog_seconds is None:
            return
        while True:
            self._send("\n".join((*self._state, "WATCHDOG=1")))
            await trio.sleep(self._watchdog_seconds / FEEDS_PER_PERIOD)

    def _enter(self, *state: str) -> None:
        self._state = state
        self._send("\n".join(state))


def service_manager(environ: Mapping[str, str], pid: int) -> ServiceManager:
    """Return the service manager of a process; a silent stand-in if there is none."""
    path = environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return ServiceManager(lambda _: None, None)
    address = f"\0{path[1:]}" if path[0] == "@" else path
    return ServiceManager(partial(_send, address), _watchdog_seconds(environ, pid))


def _watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    """Return the unit's WatchdogSec=, if it applies to this process."""
    text = environ.get("WATCHDOG_USEC", "")
    is_ours = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
    if not (is_ours and text.isascii() and text.isdigit() and int(text)):
        return None
    return int(text) / 1e6


def _send(address: str, message: str) -> None:
    # A new socket for each message, so that none stays open; a service manager that restarts or is
    # busy must cost the process nothing.
    flags = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    with suppress(OSError), socket.socket(socket.AF_UNIX, flags) as client:
        client.sendto(message.encode(), address)


def of_this_process() -> ServiceManager:
    """Return service_manager() for the environment of this process.

    Takes its variables out of the environment: children must not speak for this process.
    """
    taken = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    return service_manager(taken, os.getpid())
