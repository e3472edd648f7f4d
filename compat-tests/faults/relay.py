"""TCP links of the loopback that can be cut, held or slowed: a process of its own.

    python compat-tests/faults/relay.py '{"log-1": [9001, 5432], ...}'

A link listens at its first port and forwards to its second.  A line `LINK MODE` on standard input
sets the state of the link, and is answered by `ok`; the end of standard input ends the process.  No
mode loses bytes inside a stream, since TCP does not lose any.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from faults.ends import EndFinder

PIECE_BYTES = 64 << 10
DELAY_SECONDS = 0.3
UNANSWERED_SECONDS = (0.02, 1.0)
_SKEWED = (
    b"<?xml version='1.0'?><Error><Code>RequestTimeTooSkewed</Code><Message>The difference between"
    b" the request time and the server's time is too large.</Message></Error>"
)
_DENIED = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_SKEWED), _SKEWED)
)
DENIED_SECONDS = 5.0
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


class Mode(StrEnum):
    """The state of a link."""

    PASS = "pass"
    REFUSE = "refuse"  # resets open connections, and refuses new ones
    HOLD = "hold"  # nothing comes through; `pass` delivers waiting bytes, as after lost packets
    LOSE = "lose"  # nothing comes through; `pass` resets all connections
    DEAF = "deaf"  # requests arrive, replies do not; `pass` resets all connections
    DELAY = "delay"  # everything is late
    # Resets open connections; answers requests of HTTP as S3 does if the client's clock is wrong.
    DENY = "deny"
    LATE_ENDS = "late-ends"  # as `hold`, but only for EndTxn and later requests of its connection
    UNANSWERED_ENDS = "unanswered-ends"  # EndTxn arrives, its reply does not; a reset follows


_HOLDS_REQUESTS = frozenset({Mode.HOLD, Mode.LOSE})
_HOLDS_ENDS = _HOLDS_REQUESTS | {Mode.LATE_ENDS}
_HOLDS_REPLIES = frozenset({Mode.HOLD, Mode.LOSE, Mode.DEAF})
_RESETS_AT_ONCE = frozenset({Mode.REFUSE, Mode.DENY})
_RESETS_AT_END = frozenset({Mode.LOSE, Mode.DEAF, Mode.DENY})


@dataclass(slots=True, eq=False)
class Link:
    """One pair of ports, and the connections that use it."""

    port: int
    to_port: int
    is_of_clients: bool = False
    mode: Mode = Mode.PASS
    _changed: trio.Event = field(default_factory=trio.Event)
    _listening: trio.CancelScope | None = None
    _silent: trio.Event = field(default_factory=trio.Event)
    _open: set[trio.CancelScope] = field(default_factory=set)

    async def turn(self, mode: Mode, nursery: trio.Nursery) -> None:
        """Set the mode; returns once it holds for new connections."""
        if mode in _RESETS_AT_ONCE or (mode is Mode.PASS and self.mode in _RESETS_AT_END):
            for scope in self._open:
                scope.cancel()
        self.mode = mode
        self._changed.set()
        self._changed = trio.Event()
        if mode is Mode.REFUSE and self._listening is not None:
            self._listening.cancel()
            self._listening = None
            await self._silent.wait()
        elif mode is not Mode.REFUSE and self._listening is None:
            await nursery.start(self.listen)

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until the link refuses."""
        self._silent = trio.Event()
        with trio.CancelScope() as self._listening:
            async with trio.open_nursery() as nursery:
                listener = _bound(self.port, will_listen=True)
                listener.listen()
                task_status.started()
                listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
                await trio.serve_listeners(self._serve, listeners, handler_nursery=nursery)
        self._silent.set()

    async def _serve(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                await self._forward(client, scope)
            finally:
                self._open.discard(scope)
                if scope.cancel_called:
                    _reset(client)

    async def _forward(self, client: trio.SocketStream, scope: trio.CancelScope) -> None:
        if self.mode is Mode.DENY:
            await _deny(client)
            return
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self.to_port)
        except OSError:
            _reset(client)
            return
        try:
            unanswered = trio.Event()
            async with trio.open_nursery() as outer:
                outer.start_soon(_cancel_after, unanswered, scope)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump_requests, client, server, unanswered)
                    nursery.start_soon(self._pump_replies, server, client, unanswered)
                outer.cancel_scope.cancel()
        finally:
            if scope.cancel_called:
                _reset(server)
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(server)
                await trio.aclose_forcefully(client)

    async def _pump_requests(
        self, source: trio.SocketStream, sink: trio.SocketStream, unanswered: trio.Event
    ) -> None:
        finder = EndFinder()
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(PIECE_BYTES):
                pieces = finder.split(data) if self.is_of_clients else [(False, data)]
                for is_end, piece in pieces:
                    await self._wait_to_pass(_HOLDS_ENDS if is_end else _HOLDS_REQUESTS)
                    if is_end and self.mode is Mode.UNANSWERED_ENDS:
                        unanswered.set()
                    await sink.send_all(piece)
        await self._end(source, sink, _HOLDS_REQUESTS)

    async def _pump_replies(
        self, source: trio.SocketStream, sink: trio.SocketStream, unanswered: trio.Event
    ) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(PIECE_BYTES):
                await self._wait_to_pass(_HOLDS_REPLIES)
                if not unanswered.is_set():
                    await sink.send_all(data)
        await self._end(source, sink, _HOLDS_REPLIES)

    async def _end(
        self, source: trio.SocketStream, sink: trio.SocketStream, held_in: frozenset[Mode]
    ) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._wait_to_pass(held_in)
            await trio.aclose_forcefully(sink)
        await trio.aclose_forcefully(source)

    async def _wait_to_pass(self, held_in: frozenset[Mode]) -> None:
        if self.mode is Mode.DELAY:
            await trio.sleep(DELAY_SECONDS)
        while self.mode in held_in:
            await self._changed.wait()


async def _deny(client: trio.SocketStream) -> None:
    """Answer the first request, and read it to its end, so that no reset overtakes the answer."""
    with suppress(trio.BrokenResourceError), trio.move_on_after(DENIED_SECONDS):
        await client.receive_some(PIECE_BYTES)
        await client.send_all(_DENIED)
        await client.send_eof()
        while await client.receive_some(PIECE_BYTES):
            pass
    await trio.aclose_forcefully(client)


async def _cancel_after(unanswered: trio.Event, scope: trio.CancelScope) -> None:
    """Reset a connection some time after an EndTxn that gets no reply."""
    await unanswered.wait()
    await trio.sleep(random.uniform(*UNANSWERED_SECONDS))
    scope.cancel()


def _bound(port: int, *, will_listen: bool = False) -> socket.socket:
    """Return a socket that shares its port with sockets of this process only."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, will_listen)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made


def _reset(stream: trio.SocketStream) -> None:
    with suppress(OSError):
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    stream.socket.close()


async def run(ports: dict[str, tuple[int, int]]) -> None:
    """Serve until standard input ends."""
    held = [
        _bound(port) for port, _ in ports.values()
    ]  # so that no other process can bind the port of a link that refuses
    links = {name: Link(*pair, name.startswith("clients")) for name, pair in ports.items()}
    async with trio.open_nursery() as nursery:
        for link in links.values():
            await nursery.start(link.listen)
        print("ok", flush=True)
        rest = b""
        commands = trio.lowlevel.FdStream(0)
        while part := await commands.receive_some(1000):
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                name, mode = line.decode().split()
                await links[name].turn(Mode(mode), nursery)
                print("ok", flush=True)
        nursery.cancel_scope.cancel()
    for each in held:
        each.close()


if __name__ == "__main__":
    trio.run(run, json.loads(sys.argv[1]))
