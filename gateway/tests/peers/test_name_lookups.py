"""A name server that hangs delays only look-ups."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import aclosing, suppress

import pytest
import trio
from trio.testing import open_stream_to_socket_listener, wait_all_tasks_blocked

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.forwarding.peers import PeerUnavailable
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk
from tidegate_gateway.peers.peers import HttpPeers
from tidegate_runtime.name_lookups import THREADS, NameLookups, look_up
from tidegate_runtime.secret import Secret


async def listener() -> trio.SocketListener:
    [found] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    return found


def port_of(found: trio.SocketListener) -> int:
    return int(found.socket.getsockname()[1])


async def give_up(lookups: NameLookups, *names: str) -> None:
    """Start look-ups of these names, and cancel them once all have begun."""

    async def connect(name: str) -> None:
        with suppress(OSError):
            await lookups.dial(name, 9092)()

    async with trio.open_nursery() as nursery:
        for each in names:
            nursery.start_soon(connect, each)
        await wait_all_tasks_blocked(0.01)
        assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
        nursery.cancel_scope.cancel()


class Server:
    """A name server that hangs until it is released."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.asked: list[str] = []

    def look_up(self, host: str) -> list[str]:
        self.asked.append(host)
        self.goes_on.wait(60)
        return ["127.0.0.1"]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.goes_on.set()


async def test_a_name_server_that_hangs_takes_none_of_the_common_threads(server: Server) -> None:
    lookups = NameLookups(server.look_up)
    for _ in range(3):
        await give_up(lookups, *(f"gateway{number}" for number in range(2 * THREADS)))
    assert len(server.asked) <= THREADS
    async with await listener() as serving:
        with trio.fail_after(10):
            stream = await lookups.dial("127.0.0.1", port_of(serving))()
        await stream.aclose()


async def test_a_name_that_hangs_takes_one_thread(server: Server) -> None:
    def look_up(host: str) -> list[str]:
        return server.look_up(host) if host == "lost" else ["127.0.0.1"]

    lookups = NameLookups(look_up)
    with trio.fail_after(10):
        for _ in range(2 * THREADS):
            await give_up(lookups, "lost")
        async with await listener() as serving, await lookups.dial("other", port_of(serving))():
            pass


async def test_all_lookups_of_one_name_share_a_thread(server: Server) -> None:
    """They share it even if the first caller has given up."""
    lookups = NameLookups(server.look_up)
    connected: list[str] = []

    async def connect(name: str, port: int) -> None:
        async with await lookups.dial(name, port)():
            connected.append(name)

    async with await listener() as serving:
        await give_up(lookups, "gateway")
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(connect, "gateway", port_of(serving))
                await wait_all_tasks_blocked(0.01)
                server.goes_on.set()
    assert (server.asked, connected) == (["gateway"], ["gateway"] * 3)


@pytest.mark.parametrize("error", [socket.gaierror(-2, "no such name"), ValueError("no name")])
async def test_all_callers_of_a_failed_lookup_get_its_error(error: Exception) -> None:
    def refuse(host: str) -> list[str]:
        raise error

    lookups = NameLookups(refuse)
    told: list[str] = []

    async def connect() -> None:
        try:
            await lookups.dial("nowhere", 9092)()
        except OSError as refusal:
            told.append(str(refusal))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect)
            nursery.start_soon(connect)
    assert told == [str(error)] * 2
    await connect()
    assert told == [str(error)] * 3


async def test_peers_are_asked_without_the_common_threads(server: Server) -> None:
    endpoint = Endpoint(PEER_LISTENER, "gw-b.example", 9645)
    peers = HttpPeers(NameLookups(server.look_up).dial, Secret())
    peer = Gateway(7, 2, "key", "az", (endpoint,), "1", False, 0, 0)
    common = trio.to_thread.current_default_thread_limiter()

    async def ask() -> None:
        with pytest.raises(PeerUnavailable, match="did not answer within"):
            await peers.lend(peer, ObjectAsk("key", 0, 10, 10), 0.05)
        assert common.borrowed_tokens == 0

    async with aclosing(peers):
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                for _ in range(2 * THREADS):
                    nursery.start_soon(ask)
        assert server.asked == ["gw-b.example"]


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    async with await listener() as serving:
        lookups = NameLookups(lambda host: ["127.0.0.2", "127.0.0.1"])
        async with await lookups.dial("both", port_of(serving))():
            pass
        lookups = NameLookups(lambda host: ["127.0.0.1", "127.0.0.2"])
        async with await lookups.dial("both", port_of(serving))():
            pass
        async with await open_stream_to_socket_listener(serving):
            pass


async def test_a_name_is_looked_up() -> None:
    assert "127.0.0.1" in look_up("localhost")
    with pytest.raises(UnicodeError):
        look_up("gateway..example")
