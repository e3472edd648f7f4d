"""A connection sees that its client has gone, even if requests of the client still wait."""

from __future__ import annotations

import socket
import struct

import pytest
import trio
from trio.testing import MockClock

from tests.network.test_file_parts import tcp_pair
from tests.worlds.transaction_client import COMMITTED, end, end_offset, init, started, write
from tests.worlds.wire_client import WireClient, WireWorld, request_frame, wire_world
from tidegate_gateway.network.memory_transport import memory_transport_pair
from tidegate_gateway.network.transport import Transport
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import end_txn as et


async def read_all(transport: Transport) -> bytes:
    """Read the bytes that have arrived, but not the end of the stream."""
    buffer = memoryview(bytearray(100))
    await transport.wait_receivable()
    size = transport.receive_nowait(buffer)
    return bytes(buffer[:size])


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_socket_sees_the_end_behind_what_it_has_read(is_reset: bool) -> None:
    with tcp_pair() as (transport, client):
        assert not transport.is_gone()
        client.sendall(b"request")
        assert await read_all(transport) == b"request"
        assert not transport.is_gone()
        if is_reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        await transport.wait_receivable()
        assert transport.is_gone()
        assert transport.is_gone()  # a second look gives the same answer
        transport.close()
        assert transport.is_gone()


async def test_a_socket_sees_the_end_behind_unread_bytes() -> None:
    with tcp_pair() as (transport, client):
        client.sendall(b"request")
        await transport.wait_receivable()
        assert not transport.is_gone()
        client.close()
        while not transport.is_gone():
            await trio.lowlevel.checkpoint()
        assert await read_all(transport) == b"request"


@pytest.mark.parametrize("is_reset", [False, True])
async def test_the_twin_of_a_socket_sees_the_same(is_reset: bool) -> None:
    client, server = memory_transport_pair()
    assert not server.is_gone()
    client.send_nowait([b"request"])
    assert not server.is_gone()
    assert await read_all(server) == b"request"
    assert not server.is_gone()
    client.send_nowait([b"request"])
    client.reset() if is_reset else client.close()
    assert server.is_gone()


async def opened(client: WireClient) -> tuple[int, int]:
    """Begin a transaction as an older client does."""
    producer = await init(client, version=4)
    topics = [ap.AddPartitionsToTxnTopic("t", [0])]
    request = ap.AddPartitionsToTxnRequest([], "x", *producer, topics)
    await client.call("AddPartitionsToTxn", 3, request)
    return producer


async def leave_behind(world: WireWorld, producer: tuple[int, int], version: int) -> None:
    """Send EndTxn and close, as a client that has waited for too long."""
    client = world.connect()
    request = et.EndTxnRequest("x", *producer, True)
    await client.send(request_frame("EndTxn", version, request))
    client.transport.close()
    await trio.sleep(1)


@pytest.mark.parametrize("version", range(6))
async def test_an_end_of_a_client_that_has_gone_is_not_decided(
    version: int, autojump_clock: MockClock
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await opened(client)
        assert await write(client, topic_id, producer, 0, version=11) == E.NONE
        await leave_behind(world, producer, version)
        assert await end_offset(client, COMMITTED) == 0
        assert (await end(client, producer, version=version)).error_code == E.NONE
        assert await end_offset(client, COMMITTED) == 2


async def test_an_older_end_is_decided_while_its_client_waits(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await opened(client)
        await write(client, topic_id, producer, 0, version=11)
        request = et.EndTxnRequest("x", *producer, True)
        assert (await client.call("EndTxn", 4, request)).error_code == E.NONE
        assert await end_offset(client, COMMITTED) == 2
