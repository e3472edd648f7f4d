"""At the bound on buffered bytes, Produce requests wait, and no others."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tidegate_gateway.network.arenas import LARGE_BYTES, SMALL_BYTES, Arena, ArenaPool
from tidegate_gateway.network.call import Peer
from tidegate_gateway.network.connection import Connection, fill
from tidegate_gateway.network.inflow import Inflow
from tidegate_gateway.network.memory_transport import MemoryTransport, memory_transport_pair
from tidegate_gateway.network.receiver import ConnectionLimits
from tidegate_gateway.network.reply_memory import ReplyMemory
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.frames import frame

HEARTBEAT = b"\x00\x0c"
PRODUCE = ApiKey.PRODUCE.to_bytes(2, "big")


class Echo:
    """Answers each request with its size."""

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        return False

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        fill(connection.open_slot(), b"", bytearray(len(frame).to_bytes(4, "big")))
        connection.flush()


def answers(client: MemoryTransport) -> list[int]:
    """The answers so far."""
    buffer = memoryview(bytearray(1000))
    size = client.receive_nowait(buffer) or 0
    return [int.from_bytes(buffer[at + 4 : at + 8], "big") for at in range(0, size, 8)]


@pytest.mark.parametrize(
    "sizes",
    [(100_000, 10), (SMALL_BYTES - 4, 10), (SMALL_BYTES - 4 - 3, 10), (SMALL_BYTES - 4 - 5, 10)],
    ids=["larger than an arena", "fills an arena", "splits a length", "splits a key"],
)
async def test_other_requests_of_a_connection_at_its_bound_continue(
    sizes: tuple[int, ...], autojump_clock: MockClock
) -> None:
    client, server = memory_transport_pair()
    pool = ArenaPool(LARGE_BYTES)
    connection = Connection(
        server,
        Peer("client", 1, "PLAINTEXT"),
        pool,
        Echo(),
        ConnectionLimits(),
        Inflow(),
        ReplyMemory(0),
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


class LetsGo:
    """Releases each frame, waits, and answers with the size of the frame."""

    def __init__(self) -> None:
        self.may_answer = trio.Event()

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        return False

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        slot, size = connection.open_slot(), len(frame)
        connection.let_go(arena)
        await self.may_answer.wait()
        fill(slot, b"", bytearray(size.to_bytes(4, "big")))
        connection.flush()


@pytest.mark.parametrize("sizes", [(10,), (10, 20, 30), (10, SMALL_BYTES - 50, 20)])
async def test_a_request_that_waits_holds_no_memory(
    sizes: tuple[int, ...], autojump_clock: MockClock
) -> None:
    client, server = memory_transport_pair()
    pool, handler = ArenaPool(LARGE_BYTES), LetsGo()
    peer = Peer("client", 1, "PLAINTEXT")
    connection = Connection(
        server, peer, pool, handler, ConnectionLimits(), Inflow(), ReplyMemory(0)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        client.send_nowait([frame(HEARTBEAT + bytes(size - 2)) for size in sizes])
        await trio.sleep(1)
        is_last = len(sizes) == 1
        assert pool.idle_small == int(is_last)
        other = pool.small()
        other.data[:] = b"\xff" * SMALL_BYTES  # another task may use the arena now
        handler.may_answer.set()
        await trio.sleep(1)
        assert answers(client) == list(sizes)
        client.send_nowait([frame(HEARTBEAT + bytes(98))])
        await trio.sleep(1)
        assert answers(client) == [100]
        client.close()
