"""python compat-tests/zones/counting.py HOST:PORT: counts what a gateway gets from an S3 store.

It relays bytes between a gateway and the store, and prints its port.  For each line on standard
input it prints a line of JSON, {path: [GETs, bytes of answers]}, with the counts since the last
such line.  The end of standard input ends it.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import cast
from urllib.parse import unquote

import trio

RECEIVE_BYTES = 1 << 18
METHODS = (b"GET /", b"PUT /", b"HEAD /", b"POST /", b"DELETE /")


def _nothing() -> list[int]:
    return [0, 0]


@dataclass(slots=True)
class Counts:
    """Counts by path, without the query."""

    by_path: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(_nothing))

    def taken(self) -> dict[str, list[int]]:
        """Return the counts, and start them again at 0."""
        found = dict(self.by_path)
        self.by_path.clear()
        return found


@dataclass(slots=True)
class Exchange:
    """The state of a connection without pipelining.  path: of the GET under way, else ""."""

    counts: Counts
    is_asking: bool = False
    path: str = ""

    def ask(self, sent: bytes) -> None:
        """Note bytes on their way to the store; the first bytes of a request have its line."""
        if self.is_asking or not sent.startswith(METHODS):
            return  # the rest of a body; its answer came early
        self.is_asking = True
        method, _, rest = sent.partition(b" ")
        self.path = unquote(rest.partition(b" ")[0].decode(errors="replace").partition("?")[0])
        if method != b"GET":
            self.path = ""
        if self.path:
            self.counts.by_path[self.path][0] += 1

    def answer(self, size_bytes: int) -> None:
        """Count bytes of an answer."""
        self.is_asking = False
        if self.path:
            self.counts.by_path[self.path][1] += size_bytes


async def relay(client: trio.SocketStream, server: trio.SocketStream, counts: Counts) -> None:
    """Relay bytes both ways until one side closes."""
    exchange = Exchange(counts)

    async def forth() -> None:
        while data := await client.receive_some(RECEIVE_BYTES):
            exchange.ask(bytes(data))
            await server.send_all(data)

    async def back() -> None:
        while data := await server.receive_some(RECEIVE_BYTES):
            exchange.answer(len(data))
            await client.send_all(data)

    async with client, server, trio.open_nursery() as nursery:
        nursery.start_soon(_to_the_end, forth, nursery.cancel_scope)
        nursery.start_soon(_to_the_end, back, nursery.cancel_scope)


async def _to_the_end(work: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await work()
    scope.cancel()


async def serve(host: str, port: int) -> None:
    """Listen on a free port of the loopback until standard input ends."""
    counts = Counts()

    async def handle(client: trio.SocketStream) -> None:
        with suppress(OSError):
            await relay(client, await trio.open_tcp_stream(host, port), counts)

    async with trio.open_nursery() as nursery:
        serve_all = partial(trio.serve_tcp, handle, 0, host="127.0.0.1")
        listeners = cast(list[trio.SocketListener], await nursery.start(serve_all))
        print(listeners[0].socket.getsockname()[1], flush=True)
        questions = trio.lowlevel.FdStream(0)
        while await questions.receive_some(100):
            print(json.dumps(counts.taken()), flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    _host, _, _port = sys.argv[1].rpartition(":")
    trio.run(serve, _host, int(_port))
