"""Calls to PostgreSQL can be abandoned at any moment, and no part of them continues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio

from tidegate_coordination.log.metadata_log import LogUnavailable
from tidegate_coordination.logs.postgres import lane as postgres_lane
from tidegate_coordination.logs.postgres.lane import Lane
from tidegate_coordination.logs.postgres.session import Connection
from tidegate_coordination.logs.postgres.url import parse_url

PATIENCE_SECONDS = 20.0
AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0" + b"Z\0\0\0\x05I"


@dataclass
class SilentServer:
    """Accepts logins once the door is open, and answers no statement."""

    door: trio.Event = field(default_factory=trio.Event)
    asked: trio.Event = field(default_factory=trio.Event)
    left: trio.Event = field(default_factory=trio.Event)
    port: int = 0

    async def serve(self, client: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await client.receive_some(8)  # SSLRequest
            await client.send_all(b"N")
            await client.receive_some(1000)
            await self.door.wait()
            await client.send_all(AUTHENTICATED)
            while said := await client.receive_some(1000):
                if not said.startswith(b"X"):
                    self.asked.set()
        self.left.set()

    def lane(self) -> Lane:
        address = parse_url(f"postgres://ann@127.0.0.1:{self.port}/db?gssencmode=disable")
        return Lane(address, lambda _: None, is_patient=True)


@asynccontextmanager
async def silent_server() -> AsyncIterator[SilentServer]:
    server = SilentServer()
    async with trio.open_nursery() as nursery:
        listen = partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1")
        (listener,) = await nursery.start(listen)
        server.port = listener.socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel()


def work(connection: Connection) -> None:
    connection.execute("SELECT 1")


async def test_a_server_that_lets_in_and_says_nothing_holds_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_lane, "CALL_SECONDS", 0.2)
    async with silent_server() as server:
        server.door.set()
        lane = server.lane()
        with pytest.raises(LogUnavailable, match=r"did not work within 0.2 s"):
            await lane.call("work", work)
        with trio.fail_after(PATIENCE_SECONDS):
            await server.left.wait()
            while lane._threads.borrowed_tokens:
                await trio.lowlevel.checkpoint()
        assert server.asked.is_set()


async def test_a_call_abandoned_while_it_connects_is_not_made_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_lane, "CALL_SECONDS", 0.2)
    async with silent_server() as server:
        with pytest.raises(LogUnavailable, match=r"did not work within 0.2 s"):
            await server.lane().call("work", work)
        server.door.set()
        with trio.fail_after(PATIENCE_SECONDS):
            await server.left.wait()
        assert not server.asked.is_set()
