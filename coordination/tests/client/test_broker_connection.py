"""A connection of our client to a classic broker, on streams in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from tests.worlds.scripted_broker import ADDRESS, PROPERTIES, Asked, ScriptedBroker, answer_frame
from tests.worlds.wire_client import KEYS, NOW_MS, records_batch
from tidegate_coordination.client.errors import (
    BrokerUnreachable,
    ClassicError,
    Disconnected,
    Unsupported,
)
from tidegate_coordination.client.properties.client import ClientProperties
from tidegate_coordination.client.wire.connection import BrokerConnection, open_connection
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import decode_request_header
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import list_offsets as lo


@asynccontextmanager
async def scripted(
    properties: ClientProperties = PROPERTIES, **answers: Callable[[Asked], Any]
) -> AsyncIterator[tuple[ScriptedBroker, BrokerConnection]]:
    """A broker and a connection to it."""
    async with trio.open_nursery() as nursery:
        broker = ScriptedBroker(nursery, answers)
        yield broker, await open_connection(nursery, broker.dial, ADDRESS, properties)
        nursery.cancel_scope.cancel()


class RawBroker:
    """The broker's end of one connection, for tests that write bytes."""

    def __init__(self) -> None:
        self.client, self.stream = memory_stream_pair()
        self._received = bytearray()

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return self.client

    async def request(self) -> tuple[int, str, int]:
        """Return number, client id and version of the next request."""
        while len(self._received) < 4 or len(self._received) < self._size():
            data = await self.stream.receive_some()
            assert data, "the client hung up"
            self._received += data
        header = decode_request_header(memoryview(bytes(self._received[4 : self._size()])))
        del self._received[: self._size()]
        return header.correlation_id, header.client_id or "", header.api_version

    def _size(self) -> int:
        return 4 + int.from_bytes(self._received[:4], "big")

    async def greet(self) -> None:
        """Answer ApiVersions with one version of each API."""
        number, _, version = await self.request()
        rows = [av.ApiVersion(KEYS[name], 4, 11) for name in ("ListOffsets", "Fetch")]
        await self.answer(number, "ApiVersions", version, av.ApiVersionsResponse(0, rows))

    async def answer(self, number: int, name: str, version: int, response: Any) -> None:
        await self.stream.send_all(answer_frame(number, name, version, response))


@asynccontextmanager
async def raw(
    properties: ClientProperties = PROPERTIES, *, max_answer_bytes: int = 1 << 20
) -> AsyncIterator[tuple[RawBroker, BrokerConnection]]:
    """A broker of bytes and a greeted connection to it."""
    broker = RawBroker()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.greet)
        connection = await open_connection(
            nursery, broker.dial, ADDRESS, properties, max_answer_bytes=max_answer_bytes
        )
        yield broker, connection
        nursery.cancel_scope.cancel()


def listed(offset: int) -> lo.ListOffsetsResponse:
    row = lo.ListOffsetsPartitionResponse(0, offset=offset)
    return lo.ListOffsetsResponse(topics=[lo.ListOffsetsTopicResponse("t", [row])])


def asking(offset: int) -> lo.ListOffsetsRequest:
    """Return a request that carries a number."""
    row = lo.ListOffsetsPartition(0, timestamp=offset)
    return lo.ListOffsetsRequest(-1, topics=[lo.ListOffsetsTopic("t", [row])])


def echoed(asked: Asked) -> lo.ListOffsetsResponse:
    """Answer with the number in the request."""
    return listed(asked.request.topics[0].partitions[0].timestamp)


def offset_of(response: lo.ListOffsetsResponse) -> int:
    return response.topics[0].partitions[0].offset


async def outcomes(connection: BrokerConnection, count: int) -> list[Any]:
    """Return what concurrent calls return or raise."""
    found: list[Any] = [None] * count

    async def call(index: int) -> None:
        try:
            found[index] = offset_of(await connection.call("ListOffsets", asking(index)))
        except ClassicError as error:
            found[index] = type(error)

    async with trio.open_nursery() as nursery:
        for index in range(count):
            nursery.start_soon(call, index)
    return found


# -- calls ----------------------------------------------------------------------------------------


async def test_calls_are_pipelined_and_answered_in_order(autojump_clock: MockClock) -> None:
    arrived: list[int] = []
    go = trio.Event()

    async def answer(asked: Asked) -> lo.ListOffsetsResponse:
        await go.wait()
        return echoed(asked)

    async with scripted(ListOffsets=answer) as (broker, connection):
        async with trio.open_nursery() as nursery:

            async def call(number: int) -> None:
                assert offset_of(await connection.call("ListOffsets", asking(number))) == number
                arrived.append(number)

            for number in range(20):
                nursery.start_soon(call, number)
            await trio.testing.wait_all_tasks_blocked()
            assert arrived == []
            go.set()
        assert sorted(arrived) == list(range(20))
        sent = [each.request.topics[0].partitions[0].timestamp for each in broker.asked[1:]]
        assert arrived == sent


async def test_all_requests_are_sent_before_the_first_answer(autojump_clock: MockClock) -> None:
    async with raw() as (broker, connection), trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(connection.call, "ListOffsets", asking(number))
        numbers = [(await broker.request())[0] for _ in range(3)]
        assert numbers == sorted(numbers)
        for number in numbers:
            await broker.answer(number, "ListOffsets", 10, listed(1))


async def test_an_answer_out_of_order_closes_the_connection(autojump_clock: MockClock) -> None:
    async with raw() as (broker, connection):
        found: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def calls() -> None:
                found.extend(await outcomes(connection, 2))

            nursery.start_soon(calls)
            await broker.request()
            second, _, version = await broker.request()
            await broker.answer(second, "ListOffsets", version, listed(2))
        assert found == [Disconnected, Disconnected]
        assert await broker.stream.receive_some() == b""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (frame(b"\0\0"), "broke the protocol"),
        (frame(b"\0\0\0\2"), "broke the protocol"),
        (
            frame(b"\0\0\0\2" + b"\0\0\0\0" + b"\x7f\xff\xff\xff"),
            "Topics claims 2147483647 elements",
        ),
        (b"\xff\xff\xff\xff", "an answer of -1 bytes"),
    ],
)
async def test_a_bad_answer_closes_the_connection(
    data: bytes, said: str, autojump_clock: MockClock
) -> None:
    async with raw() as (broker, connection):
        async with trio.open_nursery() as nursery:

            async def script() -> None:
                await broker.request()
                await broker.stream.send_all(data)

            nursery.start_soon(script)
            with pytest.raises(Disconnected, match=said):
                await connection.call("ListOffsets", asking(1), max_version=4)
        assert not connection.is_open


async def test_an_answer_that_no_request_waits_for_closes_the_connection(
    autojump_clock: MockClock,
) -> None:
    async with raw() as (broker, connection):
        await broker.answer(5, "ListOffsets", 4, listed(1))
        await trio.testing.wait_all_tasks_blocked()
        assert not connection.is_open
        with pytest.raises(BrokerUnreachable, match=r"that no request waits for.*was not sent"):
            await connection.call("ListOffsets", asking(1))


async def test_an_answer_that_is_too_large_closes_the_connection(autojump_clock: MockClock) -> None:
    async with raw(max_answer_bytes=200) as (broker, connection), trio.open_nursery() as nursery:

        async def script() -> None:
            await broker.request()
            await broker.stream.send_all((201).to_bytes(4, "big"))

        nursery.start_soon(script)
        with pytest.raises(Disconnected, match=r"201 bytes, and the limit is 200.*ListOffsets is"):
            await connection.call("ListOffsets", asking(1))


async def test_an_answer_in_single_bytes_is_read(autojump_clock: MockClock) -> None:
    async with raw() as (broker, connection), trio.open_nursery() as nursery:

        async def script() -> None:
            number, _, version = await broker.request()
            for each in answer_frame(number, "ListOffsets", version, listed(9)):
                await broker.stream.send_all(bytes([each]))
                await trio.sleep(0.1)

        nursery.start_soon(script)
        assert offset_of(await connection.call("ListOffsets", asking(1))) == 9


async def test_half_an_answer_and_a_close_leave_the_outcome_unknown(
    autojump_clock: MockClock,
) -> None:
    async with raw() as (broker, connection), trio.open_nursery() as nursery:

        async def script() -> None:
            number, _, version = await broker.request()
            await broker.stream.send_all(
                answer_frame(number, "ListOffsets", version, listed(9))[:9]
            )
            await broker.stream.aclose()

        nursery.start_soon(script)
        with pytest.raises(Disconnected, match="the outcome of ListOffsets is unknown"):
            await connection.call("ListOffsets", asking(1))


async def test_records_are_views_of_the_received_frame(autojump_clock: MockClock) -> None:
    batch = records_batch(b"x" * 5000)

    def fetched(asked: Asked) -> fe.FetchResponse:
        rows = [fe.PartitionData(index, records=batch) for index in range(2)]
        return fe.FetchResponse(responses=[fe.FetchableTopicResponse("t", partitions=rows)])

    async with scripted(Fetch=fetched) as (_, connection):
        answer = await connection.call("Fetch", fe.FetchRequest(), max_version=12)
        one, two = (each.records for each in answer.responses[0].partitions)
        assert isinstance(one, memoryview)
        assert one == two == batch
        assert one.obj is two.obj


async def test_a_request_may_depend_on_the_version(autojump_clock: MockClock) -> None:
    chosen: list[int] = []

    def make(version: int) -> lo.ListOffsetsRequest:
        chosen.append(version)
        return asking(3)

    async with scripted(ListOffsets=echoed) as (broker, connection):
        await connection.call("ListOffsets", make, max_version=7)
        assert chosen == [broker.asked[-1].version] == [7]


async def test_a_version_that_the_broker_lacks_is_refused_before_sending(
    autojump_clock: MockClock,
) -> None:
    async with scripted() as (broker, connection):
        request = fc.FindCoordinatorRequest()
        with pytest.raises(Unsupported, match="broker-1:9092: the broker serves FindCoordinator 0"):
            await connection.call("FindCoordinator", request, min_version=99)
        assert broker.names_asked() == ["ApiVersions"]


# -- closing --------------------------------------------------------------------------------------


async def test_a_broken_connection_fails_all_waiting_calls_at_once(
    autojump_clock: MockClock,
) -> None:
    async with scripted(ListOffsets=lambda _: None) as (broker, connection):
        async with trio.open_nursery() as nursery:

            async def hang_up() -> None:
                await trio.sleep(1)
                await broker.streams[0].aclose()

            nursery.start_soon(hang_up)
            assert await outcomes(connection, 3) == [Disconnected] * 3
        assert trio.current_time() == 1


async def test_aclose_fails_waiting_calls_and_closes_the_stream(autojump_clock: MockClock) -> None:
    async with scripted(ListOffsets=lambda _: None) as (broker, connection):
        async with trio.open_nursery() as nursery:

            async def close() -> None:
                await trio.sleep(1)
                await connection.aclose()

            nursery.start_soon(close)
            with pytest.raises(Disconnected, match="was closed here"):
                await connection.call("ListOffsets", asking(1))
        assert not connection.is_open
        await connection.aclose()
        assert len(broker.asked) == 2


async def test_the_owner_closes_the_connection_when_it_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as outer:
        broker = ScriptedBroker(outer, {"ListOffsets": lambda _: None})
        async with trio.open_nursery() as owner:
            connection = await open_connection(owner, broker.dial, ADDRESS, PROPERTIES)
            found: list[Any] = []

            async def call() -> None:
                found.extend(await outcomes(connection, 1))

            outer.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            owner.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert found == [Disconnected]


async def test_a_retired_connection_answers_what_was_sent_and_closes(
    autojump_clock: MockClock,
) -> None:
    async def late(asked: Asked) -> lo.ListOffsetsResponse:
        await trio.sleep(2)
        return echoed(asked)

    async with scripted(ListOffsets=late) as (_, connection):
        async with trio.open_nursery() as nursery:

            async def retire() -> None:
                await trio.sleep(1)
                connection.retire()
                assert not connection.is_open
                with pytest.raises(BrokerUnreachable, match="is being replaced"):
                    await connection.call("ListOffsets", asking(3))

            nursery.start_soon(retire)
            assert await outcomes(connection, 1) == [0]
        with pytest.raises(BrokerUnreachable, match="was closed here"):
            await connection.call("ListOffsets", asking(3))


async def test_request_timeout_ms_is_obeyed(autojump_clock: MockClock) -> None:
    properties = replace(PROPERTIES, request_timeout_seconds=3.0)
    async with scripted(properties, ListOffsets=lambda _: None) as (_, connection):
        with pytest.raises(Disconnected, match="within 3 s"):
            await connection.call("ListOffsets", asking(NOW_MS))
    assert trio.current_time() == 3
