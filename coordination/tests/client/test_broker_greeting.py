"""How a connection to a classic broker is opened: dial the broker, ask for its API versions."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.client.test_broker_connection import RawBroker, asking, echoed, offset_of, scripted
from tests.worlds.scripted_broker import ADDRESS, PROPERTIES, Asked, HangUp, ScriptedBroker
from tidegate_coordination.client.errors import BrokerUnreachable, Disconnected
from tidegate_coordination.client.wire.connection import open_connection
from tidegate_protocol.messages import api_versions as av

# -- set up ---------------------------------------------------------------------------------------


async def test_the_broker_is_asked_for_its_versions_first(autojump_clock: MockClock) -> None:
    async with scripted(ListOffsets=echoed) as (broker, connection):
        [asked] = broker.asked
        assert (asked.name, asked.version, asked.client_id) == ("ApiVersions", 4, "link")
        assert asked.request.client_software_name == "tidegate"
        assert connection.is_open
        assert offset_of(await connection.call("ListOffsets", asking(7))) == 7


@pytest.mark.parametrize(("theirs", "again"), [((0, 2), 2), ((0, 3), 3), ((0, 0), 0)])
async def test_an_old_broker_is_asked_again_in_its_own_version(
    theirs: tuple[int, int], again: int, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        versions = {"ApiVersions": theirs, "ListOffsets": (0, 4)}
        broker = ScriptedBroker(nursery, {"ListOffsets": echoed}, versions)
        connection = await open_connection(nursery, broker.dial, ADDRESS, PROPERTIES)
        assert [each.version for each in broker.asked] == [4, again]
        assert offset_of(await connection.call("ListOffsets", asking(7))) == 7
        assert broker.asked[-1].version == 4
        nursery.cancel_scope.cancel()


async def test_a_broker_that_names_no_versions_is_asked_again_in_version_0(
    autojump_clock: MockClock,
) -> None:
    broker = RawBroker()
    async with trio.open_nursery() as nursery:

        async def script() -> None:
            number, _, _ = await broker.request()
            await broker.answer(number, "ApiVersions", 0, av.ApiVersionsResponse(35))
            number, _, version = await broker.request()
            assert version == 0
            response = av.ApiVersionsResponse(0, [av.ApiVersion(2, 0, 1)])
            await broker.answer(number, "ApiVersions", 0, response)

        nursery.start_soon(script)
        connection = await open_connection(nursery, broker.dial, ADDRESS, PROPERTIES)
        assert connection.version("ListOffsets") == 1
        nursery.cancel_scope.cancel()


async def test_a_broker_that_is_down_is_unreachable(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        broker = ScriptedBroker(nursery, is_up=False)
        with pytest.raises(BrokerUnreachable, match="broker-1:9092 cannot be reached: Connection"):
            await open_connection(nursery, broker.dial, ADDRESS, PROPERTIES)


async def test_a_dial_that_hangs_ends_in_time(autojump_clock: MockClock) -> None:
    async def dial(host: str, port: int) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    async with trio.open_nursery() as nursery:
        with pytest.raises(BrokerUnreachable, match="not ready for requests within 10 s"):
            await open_connection(nursery, dial, ADDRESS, PROPERTIES)
    assert trio.current_time() == 10


async def test_a_broker_that_does_not_answer_the_greeting_is_unreachable(
    autojump_clock: MockClock,
) -> None:
    broker = RawBroker()
    async with trio.open_nursery() as nursery:
        with pytest.raises(BrokerUnreachable, match="within 10 s"):
            await open_connection(nursery, broker.dial, ADDRESS, PROPERTIES)
        await broker.request()
        assert await broker.stream.receive_some() == b""
    assert trio.current_time() == 10


async def test_a_broker_that_hangs_up_while_it_is_greeted_is_unreachable(
    autojump_clock: MockClock,
) -> None:
    def hang_up(asked: Asked) -> None:
        raise HangUp

    async with trio.open_nursery() as nursery:
        broker = ScriptedBroker(nursery, {"ApiVersions": hang_up})
        with pytest.raises(BrokerUnreachable, match="broker-1:9092 closed the connection"):
            await open_connection(nursery, broker.dial, ADDRESS, PROPERTIES)


async def test_a_tls_port_is_named(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        broker = ScriptedBroker(nursery, {"ApiVersions": lambda _: b"\x15\x03\x03\0\2\2\x50"})
        with pytest.raises(BrokerUnreachable, match=r"set security\.protocol=SSL"):
            await open_connection(nursery, broker.dial, ADDRESS, PROPERTIES)


async def test_a_close_at_the_first_request_hints_at_sasl(autojump_clock: MockClock) -> None:
    def hang_up(asked: Asked) -> None:
        raise HangUp

    async with scripted(ListOffsets=hang_up) as (_, connection):
        with pytest.raises(Disconnected, match="listeners do that expect SASL"):
            await connection.call("ListOffsets", asking(1))
