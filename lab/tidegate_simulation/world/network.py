"""A link between a client and a gateway: two in-memory connections and two wires between them.

A wire delays bytes, cuts the stream into pieces of any size, can hang, trickle, and break.
"""

from __future__ import annotations

from random import Random

import trio

from tidegate_gateway.network.memory_transport import MemoryTransport, memory_transport_pair
from tidegate_gateway.network.transport import TransportBroken

_PIECE_BYTES = 64 * 1024
_TRICKLE_BYTES = 8
_TRICKLE_SECONDS = 0.5


class Wire:
    """One direction of a link."""

    def __init__(
        self, source: MemoryTransport, target: MemoryTransport, rng: Random, latency_seconds: float
    ) -> None:
        self._source = source
        self._target = target
        self._rng = rng
        self._latency_seconds = latency_seconds
        self._is_trickling = False
        self._flowing = trio.Event()
        self._flowing.set()

    def hang(self) -> None:
        """Carry nothing until flow(), not even the close of an end."""
        if self._flowing.is_set():
            self._flowing = trio.Event()

    def trickle(self) -> None:
        """Carry a few bytes a second, until flow()."""
        self._is_trickling = True

    def flow(self) -> None:
        """Carry bytes again."""
        self._is_trickling = False
        self._flowing.set()

    async def carry(self) -> None:
        """Carry bytes until an end closes."""
        source, target = self._source, self._target
        buffer = memoryview(bytearray(_PIECE_BYTES))
        try:
            while size := await self._receive(buffer):
                await self._delay()
                await _send(target, buffer[:size])
            await self._flowing.wait()
            target.close()
        except TransportBroken:
            await self._flowing.wait()
            source.reset()
            target.reset()

    async def _receive(self, buffer: memoryview) -> int:
        while True:
            await self._source.wait_receivable()
            size = self._source.receive_nowait(buffer[: self._piece_bytes()])
            if size is not None:
                return size

    def _piece_bytes(self) -> int:
        if self._is_trickling:
            return self._rng.randint(1, _TRICKLE_BYTES)
        return self._rng.choice((7, 100, 2000, _PIECE_BYTES))

    async def _delay(self) -> None:
        if self._is_trickling:
            await trio.sleep(_TRICKLE_SECONDS)
        if self._latency_seconds:
            await trio.sleep(self._rng.random() * self._latency_seconds)
        await self._flowing.wait()


class Link:
    """client, server: the ends.  latency_seconds: the longest delay of a piece.

    process: the client's process.  wires: to the server, and back.
    """

    def __init__(self, address: tuple[str, int], rng: Random, latency_seconds: float) -> None:
        self.process = address[0]
        self.client, near = memory_transport_pair(address)
        far, self.server = memory_transport_pair(address)
        self._ends = (self.client, near, far, self.server)
        self.wires = (Wire(near, far, rng, latency_seconds), Wire(far, near, rng, latency_seconds))

    async def run(self) -> None:
        """Carry bytes both ways until an end closes."""
        async with trio.open_nursery() as nursery:
            for wire in self.wires:
                nursery.start_soon(wire.carry)

    def reset(self) -> None:
        """Break the connection for both sides."""
        for end in self._ends:
            end.reset()
        self.flow()

    def hang(self) -> None:
        """Carry nothing until flow() or reset()."""
        for wire in self.wires:
            wire.hang()

    def trickle(self) -> None:
        """Carry a few bytes a second, until flow() or reset()."""
        for wire in self.wires:
            wire.trickle()

    def flow(self) -> None:
        """Carry bytes again."""
        for wire in self.wires:
            wire.flow()


async def _send(target: MemoryTransport, data: memoryview) -> None:
    sent = 0
    while sent < len(data):
        await target.wait_sendable()
        sent += target.send_nowait([data[sent:]])
