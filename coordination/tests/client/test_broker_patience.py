"""How long a call to a classic broker waits, and how many calls wait at once."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MemorySendStream, MockClock

from tests.client.test_broker_connection import asking, echoed, offset_of, outcomes, raw, scripted
from tests.worlds.scripted_broker import Asked
from tidegate_coordination.client.errors import BrokerUnreachable, Disconnected
from tidegate_coordination.client.wire.connection import MAX_IN_FLIGHT
from tidegate_protocol.messages import list_offsets as lo

# -- time -----------------------------------------------------------------------------------------


async def test_a_call_without_an_answer_closes_the_connection_and_fails_all(
    autojump_clock: MockClock,
) -> None:
    async with scripted(ListOffsets=lambda _: None) as (broker, connection):
        assert await outcomes(connection, 3) == [Disconnected] * 3
        assert trio.current_time() == 30
        with pytest.raises(BrokerUnreachable, match="did not answer ListOffsets within 30 s"):
            await connection.call("ListOffsets", asking(1))
        assert broker.names_asked() == ["ApiVersions"] + ["ListOffsets"] * 3


async def test_a_call_may_allow_the_broker_to_wait(autojump_clock: MockClock) -> None:
    async def late(asked: Asked) -> lo.ListOffsetsResponse:
        await trio.sleep(34)
        return echoed(asked)

    async with scripted(ListOffsets=late) as (_, connection):
        answer = await connection.call("ListOffsets", asking(5), wait_seconds=5)
        assert offset_of(answer) == 5
        with pytest.raises(Disconnected, match="within 33 s"):
            await connection.call("ListOffsets", asking(5), wait_seconds=3)


async def test_a_throttled_client_gives_the_broker_more_time(autojump_clock: MockClock) -> None:
    async def throttled(asked: Asked) -> lo.ListOffsetsResponse:
        if len(broker.asked) > 2:
            await trio.sleep(35)  # muted by the throttle, then slow
        response = echoed(asked)
        response.throttle_time_ms = 10_000
        return response

    async with scripted(ListOffsets=throttled) as (broker, connection):
        await connection.call("ListOffsets", asking(1))
        await connection.call("ListOffsets", asking(2))
        assert connection.is_open


async def test_a_cancelled_call_leaves_the_connection_to_others(autojump_clock: MockClock) -> None:
    async def late(asked: Asked) -> lo.ListOffsetsResponse:
        await trio.sleep(2)
        return echoed(asked)

    async with scripted(ListOffsets=late) as (_, connection):
        with trio.move_on_after(1) as scope:
            await connection.call("ListOffsets", asking(1))
        assert scope.cancelled_caught
        assert offset_of(await connection.call("ListOffsets", asking(2))) == 2


async def test_a_call_that_is_cancelled_in_the_middle_of_a_send_closes_the_connection(
    autojump_clock: MockClock,
) -> None:
    async with raw() as (broker, connection):
        send: MemorySendStream = broker.client.send_stream

        async def never() -> None:
            await trio.sleep_forever()

        send.send_all_hook = never
        found: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def second() -> None:
                await trio.sleep(0.5)
                found.extend(await outcomes(connection, 1))

            nursery.start_soon(second)
            with trio.move_on_after(1):
                await connection.call("ListOffsets", asking(1))
        assert found == [BrokerUnreachable]
        assert not connection.is_open


async def test_requests_in_flight_are_bounded(autojump_clock: MockClock) -> None:
    async with scripted(ListOffsets=lambda _: None) as (broker, connection):
        found = await outcomes(connection, MAX_IN_FLIGHT + 2)
        assert found.count(Disconnected) == MAX_IN_FLIGHT
        assert found.count(BrokerUnreachable) == 2
        assert broker.names_asked().count("ListOffsets") == MAX_IN_FLIGHT


async def test_waiting_calls_are_sent_when_answers_make_room(autojump_clock: MockClock) -> None:
    async def late(asked: Asked) -> lo.ListOffsetsResponse:
        if len(broker.asked) == 2:
            await trio.sleep(1)  # until the calls in flight reach the bound
        return echoed(asked)

    async with scripted(ListOffsets=late) as (broker, connection):
        count = 3 * MAX_IN_FLIGHT
        assert await outcomes(connection, count) == list(range(count))
