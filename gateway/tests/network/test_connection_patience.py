"""A connection's idle time begins after its last answer, and its requests leave turns to others."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tidegate_gateway.network.arenas import LARGE_BYTES, Arena, ArenaPool
from tidegate_gateway.network.call import Peer
from tidegate_gateway.network.connection import FRAMES_A_TURN, Connection, FrameHandler, fill
from tidegate_gateway.network.inflow import Inflow
from tidegate_gateway.network.memory_transport import MemoryTransport, memory_transport_pair
from tidegate_gateway.network.receiver import PATIENCE_STEP_SECONDS, ConnectionLimits
from tidegate_gateway.network.reply_memory import ReplyMemory
from tidegate_protocol.frames import frame

LIMITS = ConnectionLimits(idle_seconds=600.0)
SLOW_SECONDS = 700.0


class Slow:
    """Answers after a long time, as JoinGroup may.  It may answer in stage two, as Produce does."""

    def __init__(self, nursery: trio.Nursery, *, has_two_stages: bool) -> None:
        self._nursery = nursery
        self._has_two_stages = has_two_stages

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        return False

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        if self._has_two_stages:
            self._nursery.start_soon(self._answer, connection)
        else:
            await self._answer(connection)

    async def _answer(self, connection: Connection) -> None:
        slot = connection.open_slot()
        await trio.sleep(SLOW_SECONDS)
        fill(slot, b"", bytearray(4))
        connection.flush()


class Counts:
    """Takes every frame at once, and counts them."""

    def __init__(self) -> None:
        self.taken = 0

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        self.taken += 1
        return True

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        raise AssertionError


def connected(handler: FrameHandler) -> tuple[MemoryTransport, Connection]:
    client, server = memory_transport_pair()
    peer, pool = Peer("client", 1, "PLAINTEXT"), ArenaPool(LARGE_BYTES)
    return client, Connection(server, peer, pool, handler, LIMITS, Inflow(), ReplyMemory(0))


async def watch(connection: Connection) -> None:
    while True:
        await trio.sleep(PATIENCE_STEP_SECONDS)
        connection.check_patience(trio.current_time())


async def seconds_open_after_an_answer(*, has_two_stages: bool) -> float:
    async with trio.open_nursery() as nursery:
        client, connection = connected(Slow(nursery, has_two_stages=has_two_stages))
        nursery.start_soon(watch, connection)
        nursery.start_soon(connection.serve)
        client.send_nowait([frame(b"request")])
        buffer = memoryview(bytearray(100))
        await client.wait_receivable()
        assert client.receive_nowait(buffer) == 8
        assert round(trio.current_time()) == SLOW_SECONDS
        await client.wait_receivable()
        assert client.receive_nowait(buffer) == 0
        nursery.cancel_scope.cancel()
    return trio.current_time() - SLOW_SECONDS


async def test_a_slow_answer_is_not_idleness(autojump_clock: MockClock) -> None:
    open_seconds = await seconds_open_after_an_answer(has_two_stages=False)
    assert abs(open_seconds - LIMITS.idle_seconds) <= 2 * PATIENCE_STEP_SECONDS


async def test_a_connection_with_a_request_in_stage_two_is_not_idle(
    autojump_clock: MockClock,
) -> None:
    open_seconds = await seconds_open_after_an_answer(has_two_stages=True)
    assert abs(open_seconds - LIMITS.idle_seconds) <= 2 * PATIENCE_STEP_SECONDS


async def test_many_small_requests_leave_others_their_turn(autojump_clock: MockClock) -> None:
    handler = Counts()
    client, connection = connected(handler)
    most = last = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        client.send_nowait([frame(b"xx") * 5 * FRAMES_A_TURN])
        while handler.taken < 5 * FRAMES_A_TURN:
            await trio.lowlevel.checkpoint()
            most, last = max(most, handler.taken - last), handler.taken
        client.close()
    assert most <= 2 * FRAMES_A_TURN
