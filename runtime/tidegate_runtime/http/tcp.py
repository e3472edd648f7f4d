"""Connections to a real server: TCP, with TLS on request."""

import ssl
from functools import partial

import trio

from tidegate_runtime.http.client import Connect


def tcp_connector(host: str, port: int, *, tls: ssl.SSLContext | None = None) -> Connect:
    """Return a function that opens connections; it raises OSError or trio.BrokenResourceError."""
    return partial(_connect, host, port, tls)


async def _connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    stream = await trio.open_tcp_stream(host, port)
    if tls is None:
        return stream
    secured = trio.SSLStream(stream, tls, server_hostname=host, https_compatible=True)
    try:
        await secured.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secured
