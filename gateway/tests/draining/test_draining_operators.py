"""A gateway that an operator marks in the log hands its work over, until the mark is removed."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tests.draining.test_draining_clients import (
    SESSION_MS,
    SETTINGS,
    brokers,
    coordinator_of,
    hosted,
    two,
)
from tests.worlds.cluster.several_gateways import Clock, Running, cluster, joined
from tests.worlds.wire_client import records_batch
from tidegate_coordination.rules.draining import DrainGateway, Marked, ResumeGateway
from tidegate_gateway.admin.admin_pages import state_of
from tidegate_protocol.error_codes import ErrorCode as E


async def mark(by: Running, node_id: int, *, stops: bool = False) -> Marked:
    return await by.gateway.coordinator.propose(DrainGateway(node_id, stops))


async def resume(by: Running, node_id: int) -> Marked:
    return await by.gateway.coordinator.propose(ResumeGateway(node_id))


async def test_its_groups_go_and_come_back_on_their_own(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        old, new = await two(world)
        member = await hosted(old, new)
        assert await mark(new, 1) is Marked.DONE
        assert await mark(new, 1) is Marked.ALREADY
        await trio.sleep(2)
        assert await member.beat() == E.NOT_COORDINATOR
        assert await coordinator_of(member.client, "g") == 2
        member.client = new.world.connect()
        assert await member.beat() == E.NONE

        assert await resume(new, 1) is Marked.DONE
        assert await resume(new, 1) is Marked.ALREADY
        await trio.sleep(2)
        assert await member.beat() == E.NONE  # the gateway that holds the group keeps it
        assert await brokers(new.world.connect()) == {1, 2}
        assert await mark(old, 2) is Marked.DONE
        await trio.sleep(2)
        member.client = old.world.connect()
        assert await member.beat() == E.NONE


async def test_a_gateway_that_an_operator_drained_reports_it_and_stays(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        old, new = await two(world)
        await hosted(old, new)
        life = new.gateway.coordinator.state.gateways.by_node_id(1)
        assert life is not None
        await mark(new, 1)
        await trio.sleep(2)
        assert not life.is_drained  # its client is still connected
        assert state_of(old.gateway) == "draining"
        await trio.sleep(10)
        assert life.is_drained
        assert state_of(old.gateway) == "drained"
        assert not old.gateway.draining.stop_asked.is_set()
        # A client that still connects gets the other gateways.
        client = old.world.connect()
        answer = await client.produce("t", 0, records_batch(b"a"))
        assert answer.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert await brokers(client) == {2}


async def test_a_gateway_that_an_operator_stops_ends_once_it_is_drained(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        old, new = await two(world)
        await hosted(old, new)
        await mark(new, 1)
        assert await mark(new, 1, stops=True) is Marked.DONE
        with trio.fail_after(15):
            await old.gateway.draining.stop_asked.wait()


async def test_all_of_them_serve_when_all_are_marked(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        old, new = await two(world)
        member = await hosted(old, new)
        await mark(new, 1)
        await mark(new, 2)
        await trio.sleep(2)
        member.client = new.world.connect()
        if await member.beat() == E.NOT_COORDINATOR:
            member.client = old.world.connect()
            assert await member.beat() == E.NONE
        answer = await old.world.connect().produce("t", 0, records_batch(b"a"))
        assert answer.error_code == E.NONE


async def test_a_lone_one_serves_on_until_another_comes(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        one = await world.start(1, Clock())
        await one.world.create_topic("t", 1)
        await mark(one, 1)
        await trio.sleep(2)
        member = await joined(one.world.connect(), "g", SESSION_MS)
        assert await member.beat() == E.NONE
        other = await world.start(2, Clock())
        await trio.sleep(3)
        assert await member.beat() == E.NOT_COORDINATOR
        member.client = other.world.connect()
        assert await member.beat() == E.NONE


async def test_a_drained_gateway_that_restarts_serves_again(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        old, new = await two(world)
        await mark(new, 1)
        await trio.sleep(2)
        old.stop()
        again = await world.start(1, Clock())
        assert state_of(again.gateway) == "serving"
        await trio.sleep(2)
        assert await brokers(new.world.connect()) == {1, 2}


async def test_an_unknown_one_cannot_be_marked(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        one = await world.start(1, Clock())
        assert await mark(one, 7) is Marked.UNKNOWN
        assert await resume(one, 7) is Marked.UNKNOWN
