"""A real server of an `http:` log on the loopback, for tests of its clients."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from tests.worlds.doors import NO_HOSTS, alone
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.http.service import LogService
from tidegate_coordination.logs.http.wire import MAX_PART_BYTES
from tidegate_runtime.http.server import Handle, serve_http
from tidegate_runtime.secret import Secret


@asynccontextmanager
async def tcp_server(handle: Handle, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve until the block ends; yields host:port."""

    async def serve(stream: trio.SocketStream) -> None:
        secured = stream if tls is None else trio.SSLStream(stream, tls, server_side=True)
        await serve_http(secured, handle, alone(), hosts=NO_HOSTS, max_body_bytes=MAX_PART_BYTES)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def log_server(
    log: MetadataLog, *, token: Secret | None = None, read_only: bool = False
) -> AsyncIterator[str]:
    """Serve a log until the block ends; yields its URL, without the token."""
    service = LogService(log, token=token, read_only=read_only, prefix="/logs/one")
    async with tcp_server(service.handle) as address:
        yield f"http://{address}/logs/one"
