"""The network's interface: receive into a buffer, send parts without joining them.

If a part lies in a file, the kernel sends it, and its bytes never pass through Python.

trio.abc.Stream has neither recv_into nor gather-write, and these determine the CPU time for each
megabyte (docs/performance.md).  So the gateway uses this small Protocol instead: a plain socket
here, an in-memory twin in memory_transport.py for tests and simulation.
"""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import trio

from tidegate_storage.stores.files.file_part import FileChanged, FilePart

Buffer: TypeAlias = bytes | bytearray | memoryview
Part: TypeAlias = Buffer | FilePart

# The event that shows the end of the stream without a read; macOS reports it without a flag.
_PEER_CLOSED = select.POLLRDHUP if sys.platform == "linux" else 0
# Linux refuses more than 1024 parts in one sendmsg (UIO_MAXIOV).
MAX_PARTS = 512
# A file is sent in pieces of this size.  Before the send, a piece that is not in memory is read.
STRETCH_BYTES = 1 << 20


class TransportBroken(Exception):
    """The connection cannot be used any more; mostly the peer closed or reset it.

    Close the connection: no reply can reach the peer.
    """


class Transport(Protocol):
    """One connection's bytes."""

    @property
    def peer(self) -> tuple[str, int]:
        """The peer's address: host and port."""
        ...

    async def wait_receivable(self) -> None:
        """Wait until receive_nowait() returns bytes or the end of the stream.

        Raises:
          TransportBroken: the connection is gone.
        """
        ...

    def receive_nowait(self, buffer: memoryview) -> int | None:
        """Return how many bytes it wrote to buffer; 0 at the end of the stream; None for none yet.

        Raises:
          TransportBroken: the connection is gone.
        """
        ...

    def send_nowait(self, parts: Sequence[Part]) -> int:
        """Send as much as possible without waiting; return how many bytes were sent.

        Raises:
          TransportBroken: the connection is gone.
        """
        ...

    async def wait_sendable(self) -> None:
        """Wait until send_nowait() can send bytes.

        Raises:
          TransportBroken: the connection is gone.
        """
        ...

    def is_gone(self) -> bool:
        """Return whether the peer has closed the connection, even if bytes of it are unread.

        The news may arrive late.
        """
        ...

    def close(self) -> None:
        """Close at once; other tasks' waits end with TransportBroken."""
        ...


class SocketTransport:
    """A non-blocking TCP socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = sock.getpeername()[:2]
        self._socket = sock
        # the piece to read from the disk before the next send
        self._on_disk: FilePart | None = None
        self._is_brought = False
        self.peer: tuple[str, int] = (host, port)

    async def wait_receivable(self) -> None:
        """See Transport."""
        try:
            await trio.lowlevel.wait_readable(self._socket)
        except (OSError, trio.ClosedResourceError) as error:
            raise TransportBroken(str(error)) from error

    def receive_nowait(self, buffer: memoryview) -> int | None:
        """See Transport."""
        try:
            return self._socket.recv_into(buffer)
        except BlockingIOError:
            return None
        except OSError as error:
            raise TransportBroken(str(error)) from error

    def send_nowait(self, parts: Sequence[Part]) -> int:
        """See Transport."""
        sent = 0
        try:
            if len(parts) == 1 and not isinstance(parts[0], FilePart):
                return self._socket.send(parts[0])
            for stretch, is_last in _stretches(parts):
                size = self._send(stretch, is_last=is_last)
                sent += size
                if not is_last and size < _size(stretch):
                    break
        except BlockingIOError:
            pass
        except (OSError, FileChanged) as error:
            raise TransportBroken(str(error)) from error
        return sent

    def _send(self, stretch: Sequence[Buffer] | FilePart, *, is_last: bool) -> int:
        if not isinstance(stretch, FilePart):
            # Bytes before a file must not leave in a packet of their own.
            flags = 0 if is_last else socket.MSG_MORE
            if len(stretch) == 1:
                return self._socket.send(stretch[0], flags)
            return self._socket.sendmsg(stretch, (), flags)
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise TransportBroken("closed")
        if not self._is_brought and not stretch.is_in_memory():
            self._on_disk = stretch
            return 0
        self._is_brought = False
        return stretch.send_to(descriptor)

    async def wait_sendable(self) -> None:
        """See Transport.  If the next piece is only on the disk, a thread reads it first."""
        try:
            await trio.lowlevel.wait_writable(self._socket)
            if self._on_disk is not None:
                await self._on_disk.bring()
                self._on_disk = None
                # Skip the next check: some file systems cannot say what is in memory.
                self._is_brought = True
        except (OSError, trio.ClosedResourceError, FileChanged) as error:
            raise TransportBroken(str(error)) from error

    def is_gone(self) -> bool:
        """See Transport."""
        if self._socket.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._socket, _PEER_CLOSED)
        return bool(poll.poll(0))

    def close(self) -> None:
        """See Transport."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


def _stretches(
    parts: Sequence[Part],
) -> Iterator[tuple[Sequence[Buffer] | FilePart, bool]]:
    """Yield stretches, each for one system call, and whether it is the last one.

    A stretch is a piece of a file, or all parts up to the next file.
    """
    gathered: list[Buffer] = []
    for part in parts:
        if not isinstance(part, FilePart):
            gathered.append(part)
            continue
        if gathered:
            yield gathered, False
            gathered = []
        for start in range(0, len(part), STRETCH_BYTES):
            is_end = start + STRETCH_BYTES >= len(part)
            yield part[start : start + STRETCH_BYTES], is_end and part is parts[-1]
    if gathered:
        yield gathered[:MAX_PARTS], True


def _size(stretch: Sequence[Buffer] | FilePart) -> int:
    return len(stretch) if isinstance(stretch, FilePart) else sum(map(len, stretch))
