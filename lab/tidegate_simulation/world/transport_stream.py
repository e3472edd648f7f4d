"""In-memory connections with the interface of Trio's streams."""

from __future__ import annotations

import trio

from tidegate_gateway.network.memory_transport import MemoryTransport
from tidegate_gateway.network.transport import TransportBroken


class TransportStream(trio.abc.Stream):
    """One end of an in-memory connection, with the interface of Trio's streams."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See trio.abc.SendStream."""
        rest = memoryview(data)
        try:
            while rest:
                await self._transport.wait_sendable()
                rest = rest[self._transport.send_nowait([rest]) :]
        except TransportBroken as error:
            raise trio.BrokenResourceError(str(error)) from error

    async def wait_send_all_might_not_block(self) -> None:
        """See trio.abc.SendStream."""
        await self._transport.wait_sendable()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See trio.abc.ReceiveStream."""
        buffer = memoryview(bytearray(max_bytes or 4096))
        try:
            while True:
                await self._transport.wait_receivable()
                size = self._transport.receive_nowait(buffer)
                if size is not None:
                    return bytes(buffer[:size])
        except TransportBroken as error:
            raise trio.BrokenResourceError(str(error)) from error

    async def aclose(self) -> None:
        """See trio.abc.AsyncResource."""
        self._transport.close()
        await trio.lowlevel.checkpoint()
