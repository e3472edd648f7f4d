"""Is a broker ready?  One ApiVersions v0 request, the first thing any client sends."""

from __future__ import annotations

import socket
import struct

_REQUEST_BODY = struct.pack(">hhih", 18, 0, 7, 5) + b"probe"
API_VERSIONS_REQUEST = struct.pack(">i", len(_REQUEST_BODY)) + _REQUEST_BODY


def answers(host: str, port: int, seconds: float = 2.0) -> bool:
    """True when the broker there answers ApiVersions v0 without an error."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            connection.sendall(API_VERSIONS_REQUEST)
            head = _receive(connection, 10)
    except OSError:
        return False
    return len(head) == 10 and struct.unpack(">iih", head)[1:] == (7, 0)


def offered(bootstrap: str, seconds: float = 5.0) -> set[int]:
    """The keys of the APIs the broker offers."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(API_VERSIONS_REQUEST)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        body = _receive(connection, size)
    return {key for key, _, _ in struct.iter_unpack(">hhh", body[10:])}


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            return received
        received += chunk
    return received
