"""URLs that operators give: one call to a server, or the content of a file.

Redirections are not followed: a redirection is an answer like others.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Collection
from ipaddress import ip_address
from math import inf
from stat import S_ISREG
from typing import Final
from urllib.parse import unquote, urlsplit

import trio

from .client import HttpClient
from .tcp import tcp_connector
from .values import Headers, HttpAnswer

_PORTS: Final = {"http": 80, "https": 443}


def is_url(text: str, schemes: Collection[str]) -> bool:
    """Return whether a text is a URL with one of these schemes (`file`, too) and no user."""
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in schemes and (parts.port or 1) > 0 and parts.username is None
    except ValueError:
        return False
    place = parts.path if parts.scheme == "file" else parts.hostname
    return is_good and bool(place) and text.isascii() and text.isprintable() and " " not in text


def scheme_of(url: str) -> str:
    """Return a URL's scheme in small letters; the URL may have capitals."""
    return urlsplit(url).scheme


def is_loopback(url: str) -> bool:
    """Return whether a URL's host is this machine itself."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def call_url(
    url: str,
    method: str,
    *,
    tls: ssl.SSLContext | None = None,
    headers: Headers = (),
    body: bytes = b"",
    max_answer_bytes: int,
) -> HttpAnswer:
    """Return the answer of an http or https server; the caller has a deadline.

    Args:
      tls: for https.

    Raises:
      HttpUnavailable: see HttpClient.call; the text names host and port.
    """
    parts = urlsplit(url)
    port = parts.port or _PORTS[parts.scheme]
    client = HttpClient(tcp_connector(parts.hostname or "", port, tls=tls), host=parts.netloc)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        return await client.call(
            method,
            target,
            headers=headers,
            body=body,
            timeout_seconds=inf,
            max_answer_bytes=max_answer_bytes,
        )
    finally:
        await client.aclose()


def path_of(url: str) -> str:
    """Return the path that a file URL names."""
    return unquote(urlsplit(url).path)


async def read_file(url: str, max_bytes: int) -> bytes:
    """Return the beginning of the file that a file URL names.

    Raises:
      OSError: it cannot be read, or is no regular file.
    """
    try:
        return await trio.to_thread.run_sync(_beginning, path_of(url), max_bytes)
    except ValueError as error:  # for a name with a zero byte
        raise OSError(str(error)) from error


def _beginning(path: str, max_bytes: int) -> bytes:
    with open(path, "rb", opener=_opened_at_once) as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        return file.read(max_bytes)


def _opened_at_once(path: str, flags: int) -> int:
    """Open a file; a pipe, too, without waiting for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def why_unread(error: OSError) -> str:
    """Return the cause of a failed read, without the path."""
    return error.strerror or str(error)
