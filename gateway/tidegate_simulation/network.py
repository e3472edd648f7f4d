"""A link between a client and a gateway: two in-memory connections and, between them, a wire.

The wire takes its time, cuts the stream into pieces of any size, can hang, and can break.
"""

from __future__ import annotations

from random import Random

import trio

from tidegate_gateway.memory_transport import MemoryTransport, memory_transport_pair
from tidegate_gateway.transport import TransportBroken

_PIECE_BYTES = 64 * 1024


class Link:
    """client, server: the ends.  latency_seconds: the longest a piece takes."""

    def __init__(self, address: tuple[str, int], rng: Random, latency_seconds: float) -> None:
        self.client, self._near = memory_transport_pair(address)
        self._far, self.server = memory_transport_pair(address)
        self._rng = rng
        self._latency_seconds = latency_seconds
        self._flowing = trio.Event()
        self._flowing.set()

    async def run(self) -> None:
        """Carry bytes both ways until an end closes."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._carry, self._near, self._far)
            nursery.start_soon(self._carry, self._far, self._near)

    def reset(self) -> None:
        """Break the connection for both sides."""
        for end in (self.client, self._near, self._far, self.server):
            end.reset()
        self._flowing.set()

    def hang(self) -> None:
        """Carry nothing from now on, until resume() or reset()."""
        self._flowing = trio.Event()

    def resume(self) -> None:
        """Carry on."""
        self._flowing.set()

    async def _carry(self, source: MemoryTransport, target: MemoryTransport) -> None:
        buffer = memoryview(bytearray(_PIECE_BYTES))
        try:
            while size := await self._receive(source, buffer):
                await self._delay()
                await _send(target, buffer[:size])
            target.close()
        except TransportBroken:
            source.reset()
            target.reset()

    async def _receive(self, source: MemoryTransport, buffer: memoryview) -> int:
        while True:
            await source.wait_receivable()
            size = source.receive_nowait(buffer[: self._piece_bytes()])
            if size is not None:
                return size

    def _piece_bytes(self) -> int:
        return self._rng.choice((7, 100, 2000, _PIECE_BYTES))

    async def _delay(self) -> None:
        if self._latency_seconds:
            await trio.sleep(self._rng.random() * self._latency_seconds)
        await self._flowing.wait()


async def _send(target: MemoryTransport, data: memoryview) -> None:
    sent = 0
    while sent < len(data):
        await target.wait_sendable()
        sent += target.send_nowait([data[sent:]])
