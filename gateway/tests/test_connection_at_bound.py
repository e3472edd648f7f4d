"""At the bound on buffered bytes Produce waits, and nothing else does."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tidegate_gateway.arenas import LARGE_BYTES, SMALL_BYTES, Arena, ArenaPool
from tidegate_gateway.call import Peer
from tidegate_gateway.connection import Connection, ConnectionLimits, fill
from tidegate_gateway.memory_transport import MemoryTransport, memory_transport_pair
from tidegate_protocol.frames import frame

HEARTBEAT = b"\x00\x0c"
PRODUCE = b"\x00\x00"


class Echo:
    """Answers each request with its size."""

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        fill(connection.open_slot(), b"", bytearray(len(frame).to_bytes(4, "big")))
        connection.flush()


def answers(client: MemoryTransport) -> list[int]:
    """What was answered so far."""
    buffer = memoryview(bytearray(1000))
    size = client.receive_nowait(buffer) or 0
    return [int.from_bytes(buffer[at + 4 : at + 8], "big") for at in range(0, size, 8)]


@pytest.mark.parametrize(
    "sizes",
    [(100_000, 10), (SMALL_BYTES - 4, 10), (SMALL_BYTES - 4 - 3, 10), (SMALL_BYTES - 4 - 5, 10)],
    ids=["larger than an arena", "fills an arena", "splits a length", "splits a key"],
)
async def test_other_requests_live_on(sizes: tuple[int, ...], autojump_clock: MockClock) -> None:
    client, server = memory_transport_pair()
    pool = ArenaPool(LARGE_BYTES)
    connection = Connection(
        server, Peer("client", 1, "PLAINTEXT"), pool, Echo(), ConnectionLimits()
    )
    held = await pool.large()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        client.send_nowait([frame(HEARTBEAT + bytes(size - 2)) for size in sizes])
        await trio.sleep(1)
        assert answers(client) == list(sizes)
        client.send_nowait([frame(PRODUCE + bytes(100_000))])
        await trio.sleep(1)
        assert answers(client) == []
        held.release()
        await trio.sleep(1)
        assert answers(client) == [100_002]
        client.close()
