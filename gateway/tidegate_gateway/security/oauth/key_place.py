"""Where an identity provider publishes its keys, and how they are read from there."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from math import inf
from typing import Final
from urllib.parse import unquote, urlsplit

import trio

from tidegate_coordination.classic.errors import BadProperties
from tidegate_coordination.classic.tls import make_tls_context
from tidegate_coordination.classic.tls_properties import Pem, TlsProperties
from tidegate_runtime.http.client import HttpClient, HttpUnavailable
from tidegate_runtime.http.tcp import tcp_connector

MAX_BYTES: Final = 1 << 20
_OK: Final = 200
_PORTS: Final = {"http": 80, "https": 443}
SCHEMES: Final = (*_PORTS, "file")


class KeysUnavailable(Exception):
    """The keys cannot be read now; the sentence says why."""


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """url: of one of SCHEMES.  truststore: for https; None for the system's."""

    url: str
    truststore: Pem | None = None


async def read_keys(place: KeyPlace) -> bytes:
    """Return what is there; the caller has a deadline.

    Raises:
      KeysUnavailable: see there.
    """
    parts = urlsplit(place.url)
    if parts.scheme == "file":
        return await _read_file(unquote(parts.path))
    context = await trio.to_thread.run_sync(_context, place) if parts.scheme == "https" else None
    host = parts.hostname or ""
    port = parts.port or _PORTS[parts.scheme]
    client = HttpClient(tcp_connector(host, port, tls=context), host=parts.netloc)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        answer = await client.call(
            "GET",
            target,
            headers=(("accept", "application/json"),),
            timeout_seconds=inf,
            max_answer_bytes=MAX_BYTES,
        )
    except HttpUnavailable as error:
        raise KeysUnavailable(str(error)) from error
    finally:
        await client.aclose()
    if answer.status != _OK:
        raise KeysUnavailable(f"{parts.netloc} answered {answer.status}")
    return answer.body


def _context(place: KeyPlace) -> ssl.SSLContext:
    try:
        return make_tls_context(TlsProperties(truststore=place.truststore))
    except BadProperties as error:
        raise KeysUnavailable(str(error)) from None


async def _read_file(path: str) -> bytes:
    try:
        async with await trio.open_file(path, "rb") as file:
            return await file.read(MAX_BYTES)
    except (OSError, ValueError) as error:  # the latter of a name with a zero byte
        why = error.strerror if isinstance(error, OSError) else error
        raise KeysUnavailable(f"{path} cannot be read: {why}") from error
