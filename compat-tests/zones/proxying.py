"""python compat-tests/zones/proxying.py HOST:PORT ADDRESS: a load balancer that speaks PROXY v2.

For each client it sends the gateway ADDRESS as the client's source address.  It prints its port.
The end of standard input ends it.
"""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress
from functools import partial
from typing import cast

import trio

RECEIVE_BYTES = 1 << 18
_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def header(address: str) -> bytes:
    """Return a header of version 2 for TCP over IPv4."""
    source, target = socket.inet_aton(address), socket.inet_aton("127.0.0.1")
    return _SIGNATURE + struct.pack(">BBH4s4sHH", 0x21, 0x11, 12, source, target, 40_000, 9_092)


async def _pump(
    source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope
) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while data := await source.receive_some(RECEIVE_BYTES):
            await sink.send_all(data)
    scope.cancel()


async def serve(host: str, port: int, address: str) -> None:
    """Listen on a free port of the loopback until standard input ends."""

    async def handle(client: trio.SocketStream) -> None:
        with suppress(OSError, trio.BrokenResourceError):
            server = await trio.open_tcp_stream(host, port)
            await server.send_all(header(address))
            async with client, server, trio.open_nursery() as nursery:
                nursery.start_soon(_pump, client, server, nursery.cancel_scope)
                nursery.start_soon(_pump, server, client, nursery.cancel_scope)

    async with trio.open_nursery() as nursery:
        serve_all = partial(trio.serve_tcp, handle, 0, host="127.0.0.1")
        listeners = cast(list[trio.SocketListener], await nursery.start(serve_all))
        print(listeners[0].socket.getsockname()[1], flush=True)
        while await trio.lowlevel.FdStream(0).receive_some(100):
            pass
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    _host, _, _port = sys.argv[1].rpartition(":")
    trio.run(serve, _host, int(_port), sys.argv[2])
