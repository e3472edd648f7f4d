"""Listening sockets, and the loop that accepts from them.

Sockets are bound before anything else starts, so that a port in use is known at once, and port 0 is
a number before the gateway advertises it.  Listening begins together with accepting, because a
refused client tries another gateway, but a connected client without an answer waits for long.

The loop survives the errors of a listening socket: a peer that has already gone (ECONNABORTED and
the network errors that Linux passes on through accept), and a process or machine without free file
descriptors or memory, where it pauses.  While its door is full (doors/slots.py) it stops accepting,
and clients wait in the kernel's backlog, as they do at Kafka's.  Clients wait likewise while
connections come faster than the caller's `pause` admits.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import structlog
import trio

from tidegate_runtime.addresses import ListenerAddress, url_host, with_port
from tidegate_runtime.doors.slots import ConnectionSlots, Visitor

from .line_rates import STRANGERS_LINES

_log = structlog.get_logger("tidegate.server", STRANGERS_LINES)

BACKLOG: Final = 1024
# A listener must not delay the others, however many clients connect to it at once.
ACCEPTS_A_TURN: Final = 64
OUT_OF_RESOURCES_SECONDS: Final = 0.1
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NOT_OURS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP, errno.EFAULT})

Pause = Callable[[], float]
"""Called once for each accepted connection; returns after how many seconds the next is accepted."""
Serve = Callable[[socket.socket, Visitor], Awaitable[None]]
"""Serves an accepted socket, and closes it in any case.  The door may close it at any time."""


class CannotListen(Exception):
    """The process cannot listen at an address.  The text says which, and why."""


class PortInUse(CannotListen):
    """Another program listens there.  Tell the user how to choose another port."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Bound sockets of one listener.  address: as bound, so its port is never 0."""

    address: ListenerAddress
    sockets: tuple[socket.socket, ...]

    def listen(self) -> None:
        """Let clients connect; the caller accepts them from now on.

        Raises:
          PortInUse: another program bound the port, too, and listens there.
          CannotListen: for another reason.
        """
        try:
            for each in self.sockets:
                each.listen(BACKLOG)
        except OSError as error:
            raise _cannot_listen(self.address, error) from error

    def close(self) -> None:
        """Stop listening; the kernel refuses later connections."""
        for each in self.sockets:
            _close(each)


def _close(opened: socket.socket) -> None:
    if opened.fileno() >= 0:
        # Otherwise Trio could wait on a reused descriptor.
        if trio.lowlevel.in_trio_run():
            trio.lowlevel.notify_closing(opened)
        opened.close()


def open_listener(address: ListenerAddress) -> Listener:
    """Bind and listen; the caller accepts at once.

    Raises:
      PortInUse, CannotListen: see bind_listener.
    """
    listener = bind_listener(address)
    try:
        listener.listen()
    except CannotListen:
        listener.close()
        raise
    return listener


def bind_listener(address: ListenerAddress) -> Listener:
    """Bind all addresses of a host: IPv4 and IPv6.  Clients are refused until listen().

    Raises:
      PortInUse: another process listens there.
      CannotListen: no such host, or not allowed.
    """
    opened: list[socket.socket] = []
    port = address.port
    try:
        for family, host in _families(address.host):
            opened.append(_bind(family, host, port))
            port = opened[0].getsockname()[1]
    except (OSError, UnicodeError) as error:  # UnicodeError: the name cannot be a host's
        for each in opened:
            each.close()
        raise _cannot_listen(address, error) from error
    return Listener(with_port(address, port), tuple(opened))


def bind_listeners(addresses: Iterable[ListenerAddress]) -> tuple[Listener, ...]:
    """Bind all, or none.

    Raises:
      PortInUse, CannotListen: see bind_listener.
    """
    bound: list[Listener] = []
    try:
        for each in addresses:
            bound.append(bind_listener(each))
    except CannotListen:
        for listener in bound:
            listener.close()
        raise
    return tuple(bound)


def _families(host: str) -> list[tuple[int, str]]:
    if not host:
        if socket.has_dualstack_ipv6():
            return [(socket.AF_INET6, "::")]
        return [(socket.AF_INET, "0.0.0.0")]
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(family), str(name[0])) for family, _, _, _, name in found))


def _bind(family: int, host: str, port: int) -> socket.socket:
    """Create a socket as socket.create_server does, but do not listen yet."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Otherwise a restart would have to wait for the last packets of old connections.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            takes_ipv4 = host == "::" and socket.has_dualstack_ipv6()
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not takes_ipv4))
        bound.bind((host, port))
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound


def _cannot_listen(address: ListenerAddress, error: OSError | UnicodeError) -> CannotListen:
    where = f"{url_host(address.host)}:{address.port}"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return PortInUse(
            f"port {address.port} is in use by another program, or this gateway runs already"
            f" ({where})"
        )
    reason = error.strerror if isinstance(error, OSError) else ""
    return CannotListen(f"cannot listen at {where}: {reason or error}")


def _no_pause() -> float:
    return 0.0


def stream_of(accepted: socket.socket) -> trio.SocketStream:
    """Return the stream of an accepted connection."""
    return trio.SocketStream(trio.socket.from_stdlib_socket(accepted))


class _Door(NamedTuple):
    slots: ConnectionSlots
    is_open: bool


async def accept_forever(
    listener: Listener,
    serve: Serve,
    slots: ConnectionSlots,
    pause: Pause = _no_pause,
    *,
    is_open: bool = False,
) -> None:
    """Serve connections, each in a task, until cancelled.

    is_open: no client has to log in, so each takes a slot at once.

    Connections live in a nursery of this call, so cancelling it ends them too; `Listener.close`
    ends only the accepting.
    """
    door = _Door(slots, is_open)
    async with trio.open_nursery() as nursery:
        for each in listener.sockets:
            nursery.start_soon(_accept_from, each, door, serve, pause, nursery)


async def _accept_from(
    listening: socket.socket,
    door: _Door,
    serve: Serve,
    pause: Pause,
    nursery: trio.Nursery,
) -> None:
    while listening.fileno() >= 0:
        try:
            await door.slots.wait_free()
            await trio.lowlevel.wait_readable(listening)
            if seconds := _accept_some(listening, door, serve, pause, nursery):
                await trio.sleep(seconds)
        except trio.ClosedResourceError:
            return
        except OSError as error:
            await _after_error(listening, error)


def _accept_some(
    listening: socket.socket,
    door: _Door,
    serve: Serve,
    pause: Pause,
    nursery: trio.Nursery,
) -> float:
    """Accept the waiting connections, up to a pause; return its seconds.

    Raises:
      OSError: of accept().
    """
    for _ in range(ACCEPTS_A_TURN):
        if door.slots.is_full:
            return 0.0
        try:
            accepted, name = listening.accept()
        except BlockingIOError:
            return 0.0
        host = str(name[0])
        visitor = door.slots.enter(host, partial(_close, accepted), is_known=door.is_open)
        if visitor is not None:
            nursery.start_soon(_serve_one, accepted, visitor, serve)
        else:
            _log.warning("refused a connection: max.connections.per.ip is reached", peer=host)
            accepted.close()
        if seconds := pause():
            return seconds
    return 0.0


async def _serve_one(accepted: socket.socket, visitor: Visitor, serve: Serve) -> None:
    try:
        if accepted.fileno() >= 0:  # otherwise other connections came first
            await serve(accepted, visitor)
    except Exception:
        # A bug costs only its client's connection.
        _log.exception("a connection ended with an error", peer=visitor.source)
    finally:
        accepted.close()
        visitor.leave()


async def _after_error(listening: socket.socket, error: OSError) -> None:
    """Wait after an error of accept(); return when it may be tried again."""
    if error.errno in _OUT_OF_RESOURCES:
        _log.error("cannot accept connections for now", error=error.strerror)
        await trio.sleep(OUT_OF_RESOURCES_SECONDS)
    elif error.errno in _NOT_OURS and listening.fileno() >= 0:
        raise error
    else:
        # The peer has already gone; accept(2) says to treat these errors like "try again".
        await trio.lowlevel.checkpoint()
