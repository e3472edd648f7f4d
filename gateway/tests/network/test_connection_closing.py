"""A connection that closes while commits of others still fill its reply slots."""

from __future__ import annotations

import pytest
import trio
from trio.abc import Instrument
from trio.testing import MockClock

from tidegate_gateway.network.arenas import Arena, ArenaPool
from tidegate_gateway.network.call import Peer
from tidegate_gateway.network.connection import Connection, fill
from tidegate_gateway.network.inflow import Inflow
from tidegate_gateway.network.memory_transport import memory_transport_pair
from tidegate_gateway.network.receiver import ConnectionLimits
from tidegate_gateway.network.reply_memory import ReplyMemory
from tidegate_protocol.frames import frame

LARGE_REPLY = bytes(100_000)


class Answering:
    """Answers each request with more bytes than the pipe takes."""

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        return False

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        fill(connection.open_slot(), b"", bytearray(LARGE_REPLY))
        connection.flush()


class FlushesAlways(Instrument):
    """Flushes after each step of a task, as a commit may do at any time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.errors: list[Exception] = []

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        try:
            self._connection.flush()
        except Exception as error:  # trio would only remove an instrument that raises
            self.errors.append(error)


@pytest.mark.parametrize("way", ["never reads", "sends nonsense", "stops sending", "is aborted"])
async def test_a_flush_at_any_moment_is_safe(way: str, autojump_clock: MockClock) -> None:
    client, server = memory_transport_pair(pipe_bytes=1000)
    pool = ArenaPool(1 << 20)
    peer = Peer("client", 1, "PLAINTEXT")
    connection = Connection(
        server, peer, pool, Answering(), ConnectionLimits(), Inflow(), ReplyMemory(0)
    )
    flushes = FlushesAlways(connection)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        client.send_nowait([frame(b"request")])
        trio.lowlevel.add_instrument(flushes)
        await trio.sleep(1)
        if way == "sends nonsense":
            client.send_nowait([b"\xff" * 8])
        if way == "stops sending":
            client.close()
        if way == "is aborted":
            connection.abort()
    trio.lowlevel.remove_instrument(flushes)
    assert flushes.errors == []
