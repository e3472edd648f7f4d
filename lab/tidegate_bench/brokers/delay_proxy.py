"""python -m tidegate_bench.brokers.delay_proxy HOST:PORT MS METHOD: a store that answers later.

The proxy stands before an HTTP/1.1 server and delays the first byte of each answer to a request of
that method.  Connections do not wait for each other.  It prints its port.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import trio

RECEIVE_BYTES: Final = 1 << 18


@dataclass(slots=True)
class Exchange:
    """The state of a connection without pipelining.  method: whose answers are late.  Pure."""

    method: str
    is_asking: bool = False
    is_slow: bool = False

    def ask(self, sent: bytes) -> None:
        """Take bytes for the server; the first bytes of a request hold its method."""
        if not self.is_asking:
            self.is_asking = True
            self.is_slow = sent.startswith(self.method.encode() + b" ")

    def answer(self) -> bool:
        """Return whether bytes from the server are to be delayed."""
        is_first, self.is_asking = self.is_asking, False
        return is_first and self.is_slow


async def relay(
    client: trio.abc.Stream, server: trio.abc.Stream, delay_seconds: float, method: str
) -> None:
    """Carry bytes both ways until one side ends."""
    exchange = Exchange(method)

    async def forth() -> None:
        while data := await client.receive_some(RECEIVE_BYTES):
            exchange.ask(bytes(data))
            await server.send_all(data)

    async def back() -> None:
        while data := await server.receive_some(RECEIVE_BYTES):
            if exchange.answer():
                await trio.sleep(delay_seconds)
            await client.send_all(data)

    async with client, server, trio.open_nursery() as nursery:
        nursery.start_soon(_to_the_end, forth, nursery.cancel_scope)
        nursery.start_soon(_to_the_end, back, nursery.cancel_scope)


async def _to_the_end(work: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await work()
    scope.cancel()


async def serve(host: str, port: int, delay_seconds: float, method: str) -> None:
    """Listen on a free port of the loopback, print it, and serve until cancelled."""

    async def handle(client: trio.SocketStream) -> None:
        with suppress(OSError):
            server = await trio.open_tcp_stream(host, port)
            await relay(client, server, delay_seconds, method)

    async with trio.open_nursery() as nursery:
        serve_all = partial(trio.serve_tcp, handle, 0, host="127.0.0.1")
        listeners: list[trio.SocketListener] = cast(
            list[trio.SocketListener], await nursery.start(serve_all)
        )
        print(listeners[0].socket.getsockname()[1], flush=True)


if __name__ == "__main__":
    _host, _, _port = sys.argv[1].rpartition(":")
    trio.run(serve, _host, int(_port), float(sys.argv[2]) / 1000, sys.argv[3])
