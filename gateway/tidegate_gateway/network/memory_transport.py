"""The in-memory twin of a TCP connection, for tests and simulation.

Each end receives the bytes in the order in which the other sent them.  A buffer of limited size
stands for the kernel's, so a reader that stops reading blocks the writer.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from tidegate_storage.stores.files.file_part import FileChanged, FilePart

from .transport import Part, TransportBroken

PIPE_BYTES = 256 * 1024


class _Pipe:
    """One direction."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._changed = trio.Event()
        self.closed = False
        self.broken = False

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    @property
    def room(self) -> int:
        return self._max_bytes - len(self._data)

    def write(self, parts: Sequence[Part]) -> int:
        sent = 0
        for part in parts:
            piece = part.take(self.room) if isinstance(part, FilePart) else part[: self.room]
            self._data += piece
            sent += len(piece)
            if len(piece) < len(part):
                break
        if sent:
            self._notify()
        return sent

    async def wait_data(self) -> None:
        await trio.lowlevel.checkpoint()
        while not self._data and not self.closed and not self.broken:
            await self._changed.wait()

    def read_into(self, buffer: memoryview) -> int | None:
        if self.broken:
            raise TransportBroken("reset by peer")
        size = min(len(buffer), len(self._data))
        if not size:
            return 0 if self.closed else None
        buffer[:size] = self._data[:size]
        del self._data[:size]
        self._notify()
        return size

    async def wait_room(self) -> None:
        await trio.lowlevel.checkpoint()
        while not self.room and not self.closed and not self.broken:
            await self._changed.wait()

    def close(self, *, broken: bool) -> None:
        self.closed = True
        self.broken = self.broken or broken
        self._notify()


class MemoryTransport:
    """One end of a connection made by memory_transport_pair()."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe, peer: tuple[str, int]) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self.peer = peer

    async def wait_receivable(self) -> None:
        """See Transport."""
        await self._incoming.wait_data()

    def receive_nowait(self, buffer: memoryview) -> int | None:
        """See Transport."""
        return self._incoming.read_into(buffer)

    def send_nowait(self, parts: Sequence[Part]) -> int:
        """See Transport."""
        if self._outgoing.closed:
            raise TransportBroken("closed")
        try:
            return self._outgoing.write(parts)
        except FileChanged as error:
            raise TransportBroken(str(error)) from error

    async def wait_sendable(self) -> None:
        """See Transport."""
        await self._outgoing.wait_room()

    def is_gone(self) -> bool:
        """See Transport."""
        return self._incoming.closed

    def close(self) -> None:
        """See Transport.  Bytes that were already sent still arrive; receives here then fail."""
        self._outgoing.close(broken=False)
        self._incoming.close(broken=True)

    def reset(self) -> None:
        """Break both directions at once, as a lost connection does."""
        self._outgoing.close(broken=True)
        self._incoming.close(broken=True)


def memory_transport_pair(
    client_address: tuple[str, int] = ("client", 1), *, pipe_bytes: int = PIPE_BYTES
) -> tuple[MemoryTransport, MemoryTransport]:
    """Return (the client's end, the server's end)."""
    to_server, to_client = _Pipe(pipe_bytes), _Pipe(pipe_bytes)
    client = MemoryTransport(to_client, to_server, ("server", 9092))
    return client, MemoryTransport(to_server, to_client, client_address)
