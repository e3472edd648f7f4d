"""Clients that do not log in leave connections free for clients that do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.security.sasl_client import LISTENER, handshake, log_in, sasl_settings
from tests.worlds.security.tls_world import TlsClientTransport, authority, client_context, opened
from tests.worlds.wire_client import Closed, WireClient, WireWorld, wire_world
from tidegate_protocol.messages import metadata as me
from tidegate_runtime.doors.slots import ConnectionSlots

METADATA = me.MetadataRequest([])
MAX_CONNECTIONS = 32  # clients without a login may have an eighth: 4


@asynccontextmanager
async def world_of_strangers() -> AsyncIterator[WireWorld]:
    settings = sasl_settings(more={"max_connections": str(MAX_CONNECTIONS)})
    async with wire_world(settings, listeners=(LISTENER, "PLAINTEXT")) as world:
        yield world


async def is_closed(client: WireClient) -> bool:
    with trio.move_on_after(1.0):
        try:
            await client.receive()
        except Closed:
            return True
    return False


async def test_the_oldest_of_too_many_strangers_is_closed(autojump_clock: MockClock) -> None:
    async with world_of_strangers() as world:
        known = world.connect(listener=LISTENER)
        await log_in(known)
        strangers: list[WireClient] = []
        for each in range(4):
            strangers.append(world.connect(f"host{each}", LISTENER))
            await handshake(strangers[-1])
        assert world.gateway.door.slots.strangers == 4
        one_more = world.connect(listener=LISTENER)
        assert await is_closed(strangers[0])
        assert [await is_closed(each) for each in strangers[1:]] == [False] * 3
        await log_in(one_more)
        assert (await known.call("Metadata", 12, METADATA)).brokers
        assert (await one_more.call("Metadata", 12, METADATA)).brokers
        assert (world.gateway.door.slots.strangers, world.gateway.door.slots.closed) == (3, 1)


async def test_strangers_of_one_address_have_half_of_their_room(autojump_clock: MockClock) -> None:
    async with world_of_strangers() as world:
        other = world.connect("another", LISTENER)
        await wait_all_tasks_blocked()
        strangers: list[WireClient] = []
        for _ in range(4):
            strangers.append(world.connect(listener=LISTENER))
            await handshake(strangers[-1])
        assert [await is_closed(each) for each in strangers] == [True, True, False, False]
        await log_in(other)
        assert (world.gateway.door.slots.strangers, world.gateway.door.slots.closed) == (2, 2)


async def test_a_crowd_of_one_address_closes_no_other_client(autojump_clock: MockClock) -> None:
    async with world_of_strangers() as world:
        slow = world.connect("another", LISTENER)
        await wait_all_tasks_blocked()
        for each in range(100):
            await handshake(world.connect(f"host{each % 2}", LISTENER))
        await log_in(slow)
        assert (await slow.call("Metadata", 12, METADATA)).brokers


async def test_those_that_log_in_leave_the_strangers_room(autojump_clock: MockClock) -> None:
    async with world_of_strangers() as world:
        for _ in range(12):
            await log_in(world.connect(listener=LISTENER))
        await wait_all_tasks_blocked()
        assert len(world.gateway.connections) == 12
        assert (world.gateway.door.slots.strangers, world.gateway.door.slots.closed) == (0, 0)


async def test_listeners_without_login_have_no_strangers(autojump_clock: MockClock) -> None:
    async with world_of_strangers() as world:
        clients = [world.connect(listener="PLAINTEXT") for _ in range(12)]
        await wait_all_tasks_blocked()
        assert [(await each.call("Metadata", 12, METADATA)).error_code for each in clients]
        assert (world.gateway.door.slots.strangers, world.gateway.door.slots.closed) == (0, 0)


async def test_strangers_that_go_by_themselves_are_forgotten(autojump_clock: MockClock) -> None:
    async with world_of_strangers() as world:
        for _ in range(12):
            client = world.connect(listener=LISTENER)
            await handshake(client)
            client.transport.close()
            await wait_all_tasks_blocked()
        assert (world.gateway.door.slots.strangers, world.gateway.door.slots.closed) == (0, 0)


async def test_a_handshake_that_does_not_end_is_a_strangers(autojump_clock: MockClock) -> None:
    settings = {"max.connections": str(MAX_CONNECTIONS)}
    async with wire_world(settings, tls=opened()) as world:
        strangers: list[WireClient] = []
        for each in range(5):
            strangers.append(world.connect(f"host{each}", "SSL"))
            await wait_all_tasks_blocked()
        assert (world.gateway.door.slots.strangers, world.gateway.door.slots.closed) == (4, 1)
        assert await is_closed(strangers[0])
        good = TlsClientTransport(world.open(listener="SSL"), client_context(authority().root))
        await good.handshake()
        await wait_all_tasks_blocked()
        assert (world.gateway.door.slots.strangers, world.gateway.door.slots.closed) == (3, 2)


@pytest.mark.parametrize(("most", "share"), [(10_000, 1250), (32, 4), (9, 1), (1, 1)])
def test_strangers_have_an_eighth_of_all_connections(most: int, share: int) -> None:
    assert ConnectionSlots(most).most_strangers == share
