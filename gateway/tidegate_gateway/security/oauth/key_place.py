"""Where an identity provider publishes its keys, and how they are read from there."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import trio

from tidegate_coordination.client.errors import BadProperties
from tidegate_coordination.client.properties.tls import Pem, TlsProperties
from tidegate_coordination.client.tls import make_tls_context
from tidegate_runtime.http.client import HttpUnavailable
from tidegate_runtime.http.urls import call_url, path_of, read_file, why_unread

MAX_BYTES: Final = 1 << 20
_OK: Final = 200
SCHEMES: Final = ("http", "https", "file")


class KeysUnavailable(Exception):
    """The keys cannot be read now; the sentence says why."""


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """url: has one of SCHEMES. truststore: for https; None for the system's truststore."""

    url: str
    truststore: Pem | None = None


async def read_keys(place: KeyPlace) -> bytes:
    """Return the bytes of the key set; the caller sets a deadline.

    Raises:
      KeysUnavailable: see there.
    """
    parts = urlsplit(place.url)
    if parts.scheme == "file":
        return await _read_file(place.url)
    context = await trio.to_thread.run_sync(_context, place) if parts.scheme == "https" else None
    accepted = (("accept", "application/json"),)
    try:
        answer = await call_url(
            place.url, "GET", tls=context, headers=accepted, max_answer_bytes=MAX_BYTES
        )
    except HttpUnavailable as error:
        raise KeysUnavailable(str(error)) from error
    if answer.status != _OK:
        raise KeysUnavailable(f"{parts.netloc} answered {answer.status}")
    return answer.body


def _context(place: KeyPlace) -> ssl.SSLContext:
    try:
        return make_tls_context(TlsProperties(truststore=place.truststore))
    except BadProperties as error:
        raise KeysUnavailable(str(error)) from None


async def _read_file(url: str) -> bytes:
    try:
        return await read_file(url, MAX_BYTES)
    except OSError as error:
        raise KeysUnavailable(f"{path_of(url)} cannot be read: {why_unread(error)}") from error
