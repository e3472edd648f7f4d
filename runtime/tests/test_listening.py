"""Listening and accepting: bounds, and errors that do not end the loop."""

from __future__ import annotations

import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tidegate_runtime.addresses import ListenerAddress
from tidegate_runtime.doors.slots import ConnectionSlots, Visitor
from tidegate_runtime.listening import (
    CannotListen,
    Listener,
    PortInUse,
    Serve,
    accept_forever,
    bind_listener,
    bind_listeners,
    open_listener,
)

ANY_PORT = ListenerAddress("PLAINTEXT", "127.0.0.1", 0)


@pytest.fixture(name="listener")
def _listener() -> Iterator[Listener]:
    listener = open_listener(ANY_PORT)
    yield listener
    listener.close()


@asynccontextmanager
async def accepting(
    listener: Listener, serve: Serve, slots: ConnectionSlots | None = None
) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        accept = partial(accept_forever, is_open=True)
        nursery.start_soon(accept, listener, serve, slots or ConnectionSlots(100, 100))
        yield
        nursery.cancel_scope.cancel()


async def greet(accepted: socket.socket, visitor: Visitor) -> None:
    """Send hello, and stay until the client disconnects."""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
    await stream.send_all(b"hello")
    await stream.receive_some(1)


async def connect(listener: Listener) -> trio.SocketStream:
    return await trio.open_tcp_stream(listener.address.host, listener.address.port)


async def greeted(listener: Listener) -> trio.SocketStream:
    stream = await connect(listener)
    with trio.fail_after(10):
        assert await stream.receive_some(5) == b"hello"
    return stream


async def test_connections_are_served_at_the_same_time(listener: Listener) -> None:
    assert listener.address.port > 0
    async with accepting(listener, greet):
        streams = [await greeted(listener) for _ in range(3)]
        for each in streams:
            await each.aclose()


async def test_a_bug_in_one_connection_costs_only_that_one(listener: Listener) -> None:
    calls: list[int] = []

    async def serve(accepted: socket.socket, visitor: Visitor) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        await greet(accepted, visitor)

    slots = ConnectionSlots(1, 1)
    async with accepting(listener, serve, slots):
        async with await connect(listener) as broken:
            assert await broken.receive_some(1) == b""
        async with await greeted(listener):
            assert slots.used == 1


async def test_beyond_max_connections_clients_wait(listener: Listener) -> None:
    slots = ConnectionSlots(1, 100)
    async with accepting(listener, greet, slots):
        first = await greeted(listener)
        second = await connect(listener)
        await wait_all_tasks_blocked()
        assert slots.used == 1
        await first.aclose()
        with trio.fail_after(10):
            assert await second.receive_some(5) == b"hello"
        await second.aclose()


async def test_beyond_the_limit_of_one_address_it_is_closed(listener: Listener) -> None:
    async with accepting(listener, greet, ConnectionSlots(100, 1)):
        async with await greeted(listener), await connect(listener) as refused:
            with trio.fail_after(10):
                assert await refused.receive_some(1) == b""
        async with await greeted(listener):
            pass


async def test_running_out_of_descriptors_is_survived(listener: Listener) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    client = socket.socket()
    async with accepting(listener, greet):
        await wait_all_tasks_blocked()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno(), hard))
            with capture_logs() as lines, trio.fail_after(10):
                client.connect((listener.address.host, listener.address.port))
                while not lines:
                    await trio.lowlevel.checkpoint()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert lines[0]["event"] == "cannot accept connections for now"
        client.setblocking(False)
        async with trio.SocketStream(trio.socket.from_stdlib_socket(client)) as stream:
            with trio.fail_after(10):
                assert await stream.receive_some(5) == b"hello"


async def test_closing_a_listener_refuses_new_clients_and_keeps_the_others(
    listener: Listener,
) -> None:
    async with accepting(listener, greet), await greeted(listener):
        listener.close()
        with pytest.raises(OSError, match=r"refused|connect"):
            await connect(listener)


async def test_accepting_ends_when_the_listener_is_closed() -> None:
    """Otherwise Trio could wait on a reused descriptor."""
    listener = open_listener(ANY_PORT)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept_forever, listener, greet, ConnectionSlots(100, 100))
            await trio.testing.wait_all_tasks_blocked()
            listener.close()


def test_a_port_in_use_is_an_error() -> None:
    first = open_listener(ANY_PORT)
    try:
        with pytest.raises(PortInUse, match=f"port {first.address.port} is in use"):
            bind_listeners([ANY_PORT, first.address])
    finally:
        first.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
async def test_a_client_that_connects_before_listening_is_refused(host: str) -> None:
    listener = bind_listener(ListenerAddress("PLAINTEXT", host, 0))
    try:
        port = listener.address.port
        assert port
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port), timeout=10)
        listener.listen()
        async with accepting(listener, greet):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            with trio.fail_after(10):
                assert await stream.receive_some(5) == b"hello"
            await stream.aclose()
    finally:
        listener.close()


def test_the_second_socket_to_listen_on_a_shared_port_gets_an_error() -> None:
    """While neither socket listens, the system lets both bind the port, which restarts need."""
    first = bind_listener(ANY_PORT)
    second = bind_listener(first.address)
    try:
        first.listen()
        with pytest.raises(PortInUse, match=f"port {first.address.port} is in use"):
            second.listen()
    finally:
        first.close()
        second.close()


def test_a_port_is_found_free_without_keeping_anybody_from_it() -> None:
    listener = bind_listener(ANY_PORT)
    try:
        checked = bind_listener(listener.address)
        listener.listen()
        checked.close()
    finally:
        listener.close()


def test_a_host_of_another_machine_is_an_error() -> None:
    with pytest.raises(CannotListen, match=r"cannot listen at 192\.0\.2\.1:0"):
        open_listener(ListenerAddress("PLAINTEXT", "192.0.2.1", 0))
    with pytest.raises(CannotListen, match="cannot listen at xxx"):
        open_listener(ListenerAddress("PLAINTEXT", "x" * 100, 0))


async def test_no_host_listens_everywhere() -> None:
    listener = open_listener(ListenerAddress("PLAINTEXT", "", 0))
    try:
        async with accepting(listener, greet):
            stream = await trio.open_tcp_stream("127.0.0.1", listener.address.port)
            with trio.fail_after(10):
                assert await stream.receive_some(5) == b"hello"
            await stream.aclose()
    finally:
        listener.close()
