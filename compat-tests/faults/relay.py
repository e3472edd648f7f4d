"""TCP links of the loopback that can be cut, held or slowed: a process of its own.

    python compat-tests/faults/relay.py '{"log-1": [9001, 5432], ...}'

A link listens at its first port and forwards to its second.  A line `LINK MODE` on standard input
sets how it is, and is answered by `ok`; the end of standard input ends the process.  No mode loses
bytes in the midst of a stream: TCP would not either.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import trio

PIECE_BYTES = 64 << 10
DELAY_SECONDS = 0.3
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


class Mode(StrEnum):
    """How a link is."""

    PASS = "pass"
    REFUSE = "refuse"  # resets open connections, and refuses new ones
    HOLD = "hold"  # nothing comes through; `pass` delivers waiting bytes, as after lost packets
    LOSE = "lose"  # nothing comes through; `pass` resets what was open
    DEAF = "deaf"  # requests arrive, replies do not; `pass` resets what was open
    DELAY = "delay"  # everything is late


_HOLDS_REQUESTS = frozenset({Mode.HOLD, Mode.LOSE})
_HOLDS_REPLIES = frozenset({Mode.HOLD, Mode.LOSE, Mode.DEAF})
_RESETS_AT_END = frozenset({Mode.LOSE, Mode.DEAF})


@dataclass(slots=True, eq=False)
class Link:
    """One pair of ports, and the connections that use it."""

    port: int
    to_port: int
    mode: Mode = Mode.PASS
    _changed: trio.Event = field(default_factory=trio.Event)
    _listening: trio.CancelScope | None = None
    _open: set[trio.CancelScope] = field(default_factory=set)

    async def turn(self, mode: Mode, nursery: trio.Nursery) -> None:
        """Make it so; returns when new connections see it."""
        if mode is Mode.REFUSE or (mode is Mode.PASS and self.mode in _RESETS_AT_END):
            for scope in self._open:
                scope.cancel()
        self.mode = mode
        self._changed.set()
        self._changed = trio.Event()
        if mode is Mode.REFUSE and self._listening is not None:
            self._listening.cancel()
            self._listening = None
        elif mode is not Mode.REFUSE and self._listening is None:
            await nursery.start(self.listen)

    async def listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until the link refuses."""
        with trio.CancelScope() as self._listening:
            async with trio.open_nursery() as nursery:
                listeners = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
                task_status.started()
                await trio.serve_listeners(self._serve, listeners, handler_nursery=nursery)

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
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self.to_port)
        except OSError:
            _reset(client)
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pump, client, server, _HOLDS_REQUESTS)
                nursery.start_soon(self._pump, server, client, _HOLDS_REPLIES)
        finally:
            if scope.cancel_called:
                _reset(server)
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(server)
                await trio.aclose_forcefully(client)

    async def _pump(
        self, source: trio.SocketStream, sink: trio.SocketStream, held_in: frozenset[Mode]
    ) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(PIECE_BYTES):
                await self._wait_to_pass(held_in)
                await sink.send_all(data)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._wait_to_pass(held_in)
            await trio.aclose_forcefully(sink)
        await trio.aclose_forcefully(source)

    async def _wait_to_pass(self, held_in: frozenset[Mode]) -> None:
        if self.mode is Mode.DELAY:
            await trio.sleep(DELAY_SECONDS)
        while self.mode in held_in:
            await self._changed.wait()


def _reset(stream: trio.SocketStream) -> None:
    with suppress(OSError):
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    stream.socket.close()


async def run(ports: dict[str, tuple[int, int]]) -> None:
    """Serve until standard input ends."""
    links = {name: Link(*pair) for name, pair in ports.items()}
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


if __name__ == "__main__":
    trio.run(run, json.loads(sys.argv[1]))
