"""Reads the PROXY header of a connection, before the gateway reads anything else from it."""

from __future__ import annotations

from typing import Final

import structlog
import trio

from tidegate_runtime.line_rates import STRANGERS_LINES

from .proxy_header import BadProxyHeader, ProxyHeader, read_proxy_header
from .transport import Transport, TransportBroken

_log = structlog.get_logger("tidegate.proxied", STRANGERS_LINES)

HEADER_SECONDS: Final = 5.0


async def source_of(transport: Transport) -> tuple[str, int] | None:
    """Return the client's address; log and return None if the caller must close the connection.

    A connection that ends before its first byte is a load balancer's health check, so it is not
    logged.
    """
    try:
        with trio.fail_after(HEADER_SECONDS):
            header = await _header(transport)
    except TransportBroken:
        return None
    except trio.TooSlowError:
        reason = f"no PROXY header within {HEADER_SECONDS:g} s; see proxy.protocol.listeners"
    except BadProxyHeader as error:
        reason = f"{error}; see proxy.protocol.listeners"
    else:
        return header.source or transport.peer
    host, port = transport.peer
    _log.warning("closed a connection", peer=f"{host}:{port}", reason=reason)
    return None


async def _header(transport: Transport) -> ProxyHeader:
    received = b""
    while isinstance(found := read_proxy_header(received), int):
        piece = memoryview(bytearray(found))
        size = transport.receive_nowait(piece)
        if size is None:
            await transport.wait_receivable()
        elif not size and not received:
            raise TransportBroken("closed before its first byte")
        elif not size:
            raise BadProxyHeader("the connection ended within its PROXY header")
        else:
            received += piece[:size]
    return found
