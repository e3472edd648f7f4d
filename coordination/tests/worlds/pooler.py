"""A pooler before PostgreSQL, as pgbouncer in transaction or in session mode."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

SERVERS: Final = 6
_SSL, _GSS = 80877103, 80877104
_SETTINGS: Final = {
    "server_version": "16.0",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "integer_datetimes": "on",
}


class Pooler:
    """keeps_sessions: a client keeps its server connection until it leaves."""

    def __init__(self, server_url: str, *, keeps_sessions: bool) -> None:
        self._keeps_sessions = keeps_sessions
        self._servers = [psycopg.connect(server_url, autocommit=True) for _ in range(SERVERS)]
        # The server connection that became free last is used first, as in pgbouncer.
        self._free = [socket.socket(fileno=each.fileno()) for each in self._servers]
        for each in self._free:
            each.setblocking(True)
        self._changed = threading.Condition()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                self._clients.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        with suppress(OSError, EOFError), client:
            _greet(client)
            while (batch := _batch(client)) is not None:
                server = server or self._take()
                server.sendall(batch)
                if _relay(server, client) == b"I" and not self._keeps_sessions:
                    self._give_back(server)
                    server = None
        if server is not None:
            self._give_back(server)

    def _take(self) -> socket.socket:
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._free), 10):
                raise EOFError
            return self._free.pop()

    def _give_back(self, server: socket.socket) -> None:
        with self._changed:
            self._free.append(server)
            self._changed.notify()

    def close(self) -> None:
        self._door.close()
        for client in self._clients:
            client.close()
        for each in self._free:
            each.detach()  # psycopg closes the socket
        for server in self._servers:
            server.close()


@contextmanager
def running_pooler(url: str, *, keeps_sessions: bool) -> Iterator[str]:
    """Give the URL of the same database through the pooler."""
    pooler = Pooler(url, keeps_sessions=keeps_sessions)
    try:
        head, _, database = url.rpartition("/")
        yield f"{head.rpartition(':')[0]}:{pooler.port}/{database}"
    finally:
        pooler.close()


def _greet(client: socket.socket) -> None:
    while True:
        size, code = struct.unpack("!ii", _exactly(client, 8))
        _exactly(client, size - 8)
        if code not in (_SSL, _GSS):
            break
        client.sendall(b"N")
    told = b"".join(_message(b"S", f"{k}\0{v}\0".encode()) for k, v in _SETTINGS.items())
    keys = _message(b"K", struct.pack("!ii", 1, 1))
    client.sendall(_message(b"R", struct.pack("!i", 0)) + told + keys + _message(b"Z", b"I"))


def _batch(client: socket.socket) -> bytes | None:
    """Return messages up to the one that the server answers; None if the client disconnects."""
    whole = b""
    while True:
        kind, message = _read(client)
        if kind == b"X":
            return None
        whole += message
        if kind in (b"Q", b"S"):
            return whole


def _relay(server: socket.socket, client: socket.socket) -> bytes:
    """Pass answers on; return whether the server is in a transaction."""
    while True:
        kind, message = _read(server)
        client.sendall(message)
        if kind == b"Z":
            return message[-1:]


def _read(source: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(source, 5)
    (size,) = struct.unpack("!i", head[1:])
    return head[:1], head + _exactly(source, size - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = source.recv(size - len(got))
        if not more:
            raise EOFError
        got += more
    return got


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body
