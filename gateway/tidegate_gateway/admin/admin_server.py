"""Serves admin pages on the admin listener, with or without TLS, to clients that may read them."""

from __future__ import annotations

import socket
from functools import partial
from typing import Final

import trio

from tidegate_runtime.doors.slots import HTTP_STRANGERS, ConnectionSlots, Visitor
from tidegate_runtime.http.hosts import KnownHosts
from tidegate_runtime.http.pages import Pages, serve_pages
from tidegate_runtime.listening import Listener, accept_forever, stream_of
from tidegate_runtime.secret import Secret

from ..tls.streams import has_certificate, secured
from ..tls.tls_listener import TlsListener
from .admin_access import refusal_of

MAX_ADMIN_CONNECTIONS: Final = 64


def admin_slots() -> ConnectionSlots:
    """Return the limits of an admin listener on connections."""
    return ConnectionSlots(MAX_ADMIN_CONNECTIONS, beside=HTTP_STRANGERS)


async def serve_admin(
    listener: Listener,
    pages: Pages,
    tls: TlsListener | None,
    token: Secret,
    slots: ConnectionSlots,
    hosts: KnownHosts,
) -> None:
    """Serve the pages until cancelled.

    Args:
      tls: None without TLS.  token: admin.token; empty if it is not set.
      hosts: the allowed values of the Host header if no token or certificate protects the pages.
    """

    async def serve(accepted: socket.socket, visitor: Visitor) -> None:
        stream = stream_of(accepted)
        found = await secured(stream, tls) if tls is not None else stream
        if found is None:
            return
        is_known = isinstance(found, trio.SSLStream) and has_certificate(found)
        refusal = partial(refusal_of, token=token, has_certificate=is_known)
        asks_proof = bool(token) or is_known
        await serve_pages(found, pages, visitor, refusal, hosts=hosts, asks_proof=asks_proof)

    await accept_forever(listener, serve, slots)
