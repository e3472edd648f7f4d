"""A draining gateway hands its groups and clients over.  No member rejoins, no request fails."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, Cluster, Member, Running, cluster, joined
from tests.worlds.wire_client import WireClient, records_batch, request_frame
from tidegate_coordination.placement.groups import holder
from tidegate_gateway.network.transport import TransportBroken
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import metadata as md

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "drain.grace.ms": "4000"}
SESSION_MS = 10_000


async def coordinator_of(client: WireClient, group_id: str) -> int:
    request = fc.FindCoordinatorRequest(coordinator_keys=[group_id])
    answer = await client.call("FindCoordinator", 4, request)
    found: int = answer.coordinators[0].node_id
    return found


async def brokers(client: WireClient) -> set[int]:
    answer = await client.call("Metadata", 12, md.MetadataRequest([], False))
    return {each.node_id for each in answer.brokers}


async def leaders(client: WireClient, topic: str) -> set[int]:
    request = md.MetadataRequest([md.MetadataRequestTopic(name=topic)], False)
    [found] = (await client.call("Metadata", 12, request)).topics
    return {each.leader_id for each in found.partitions}


async def two(world: Cluster) -> tuple[Running, Running]:
    return await world.start(1, Clock()), await world.start(2, Clock())


async def hosted(one: Running, two: Running) -> Member:
    """Return the member of a new group at the first gateway."""
    await one.world.create_topic("t", 1)
    member = await joined(one.world.connect(), "g", SESSION_MS)
    await trio.sleep(1)
    assert await coordinator_of(two.world.connect(), "g") == 1
    return member


async def test_a_member_goes_on_elsewhere_without_joining_again(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, new = await two(world)
        member = await hosted(old, new)
        nursery.start_soon(old.drain)
        await trio.sleep(0.5)
        assert await member.beat() == E.NOT_COORDINATOR
        assert await member.commit("t", 5) == E.NOT_COORDINATOR
        assert await coordinator_of(member.client, "g") == 2
        member.client = new.world.connect()
        assert await member.beat() == E.NONE
        assert await member.commit("t", 5) == E.NONE
        for _ in range(4):
            await trio.sleep(3)
            assert await member.beat() == E.NONE
        held = holder(new.gateway.coordinator.state, "g")
        assert held is not None
        assert held.node_id == 2


async def test_sessions_begin_anew_where_a_group_went(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, new = await two(world)
        member = await hosted(old, new)
        await trio.sleep(SESSION_MS / 1000 - 2)
        nursery.start_soon(old.drain)
        await trio.sleep(SESSION_MS / 1000 - 2)
        member.client = new.world.connect()
        assert await member.beat() == E.NONE


async def test_a_drain_answers_members_that_wait_for_a_rebalance_at_once(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, new = await two(world)
        await hosted(old, new)
        codes: list[int] = []

        async def join() -> None:
            protocols = [jg.JoinGroupRequestProtocol("range", b"")]
            request = jg.JoinGroupRequest(
                "g", SESSION_MS, 60_000, "", protocol_type="consumer", protocols=protocols
            )
            client = old.world.connect()
            request.member_id = (await client.call("JoinGroup", 9, request)).member_id
            codes.append((await client.call("JoinGroup", 9, request)).error_code)

        nursery.start_soon(join)
        await trio.sleep(1)
        assert codes == []
        nursery.start_soon(old.drain)
        await trio.sleep(0.5)
        assert codes == [E.NOT_COORDINATOR]


async def test_clients_are_sent_to_others_while_a_draining_gateway_is_still_a_broker(
    autojump_clock: MockClock,
) -> None:
    """Otherwise clients would drop the broker at once, and not ask it for the other leaders."""
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, new = await two(world)
        await old.world.create_topic("t", 9)
        client = old.world.connect()
        assert await brokers(client) == {1, 2}
        nursery.start_soon(old.drain)
        await trio.sleep(3.9)
        assert old.gateway.is_draining
        for each in (client, old.world.connect(), new.world.connect()):
            assert await brokers(each) == {1, 2}
            assert await leaders(each, "t") == {2}
            assert await coordinator_of(each, "any") == 2
        await trio.sleep(0.2)
        for each in (client, old.world.connect(), new.world.connect()):
            assert await brokers(each) == {2}


async def test_a_waiting_fetch_is_sent_to_the_others(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, new = await two(world)
        await old.world.create_topic("t", 1)
        client = old.world.connect()
        assert (await client.produce("t", 0, records_batch(b"a"))).error_code == E.NONE
        nursery.start_soon(_drained_after, old, 2.0)
        began = trio.current_time()
        asked = fe.FetchPartition(0, fetch_offset=1, partition_max_bytes=1 << 20)
        request = fe.FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[fe.FetchTopic(topic="t", partitions=[asked])],
        )
        [found] = (await client.call("Fetch", 12, request)).responses[0].partitions
        assert found.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert trio.current_time() - began < 5
        assert await new.world.connect().fetch_values("t", 0, 0) == [b"a"]


async def _drained_after(running: Running, seconds: float) -> None:
    await trio.sleep(seconds)
    await running.drain()


async def test_a_drain_ends_once_its_clients_are_silent(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        old, new = await two(world)
        client = old.world.connect()
        assert await brokers(client) == {1, 2}
        began = trio.current_time()
        await old.drain()
        assert 4 <= trio.current_time() - began < 8
        await trio.sleep(1)
        assert [each.node_id for each in new.gateway.coordinator.state.gateways.brokers()] == [2]
        with pytest.raises(TransportBroken):
            await brokers(client)


async def test_a_client_that_keeps_asking_is_let_go_after_a_while(
    autojump_clock: MockClock,
) -> None:
    """A Java client uses all brokers that it knows, and asks for metadata every 5 minutes."""
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, _ = await two(world)
        client = old.world.connect()
        began = trio.current_time()
        nursery.start_soon(old.drain)
        with suppress(TransportBroken):
            while trio.current_time() - began < 12:
                await brokers(client)
                await trio.sleep(0.7)
        assert 8 <= trio.current_time() - began < 12


async def test_a_client_that_comes_late_is_sent_to_the_others(autojump_clock: MockClock) -> None:
    """A late client needs some time until its first request."""
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, _ = await two(world)
        busy, begun = old.world.connect(), trio.current_time()
        nursery.start_soon(old.drain)
        while trio.current_time() - begun < 7.9:
            await brokers(busy)
            await trio.sleep(0.7)
        late = old.world.connect()
        await trio.sleep(1.6)
        assert await brokers(late) == {2}


async def test_a_request_that_stops_in_the_middle_does_not_hold_up_a_drain(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS | {"drain.timeout.ms": "600000"}) as world:
        old, _ = await two(world)
        busy, begun = old.world.connect(), trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(old.drain)
            while trio.current_time() - begun < 8:
                await brokers(busy)
                await trio.sleep(0.7)
            assert old.gateway.connections
            frame = request_frame("Metadata", 12, md.MetadataRequest([], False))
            await busy.send(frame[:9])
            await trio.sleep(120)
            assert not old.gateway.connections


async def test_a_reply_that_is_being_read_is_not_cut(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        old, _ = await two(world)
        await old.world.create_topic("t", 1)
        client = old.world.connect()
        assert (await client.produce("t", 0, records_batch(bytes(900_000)))).error_code == E.NONE
        asked = fe.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = fe.FetchRequest(
            max_bytes=1 << 20, session_epoch=-1, topics=[fe.FetchTopic("t", partitions=[asked])]
        )
        await client.send(request_frame("Fetch", 12, request))
        await trio.sleep(1)
        began = trio.current_time()
        piece, received = memoryview(bytearray(32_768)), 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(old.drain)
            while received < 900_000:
                # 64 KiB/s: the reply takes longer than the drain waits for silent clients.
                await trio.sleep(0.5)
                with trio.fail_after(10):
                    await client.transport.wait_receivable()
                size = client.transport.receive_nowait(piece)
                assert size
                received += size
        assert 13 < trio.current_time() - began < 17


async def test_without_clients_it_ends_at_once(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        old, _ = await two(world)
        began = trio.current_time()
        await old.drain()
        assert trio.current_time() - began < 1


async def test_a_client_that_stays_does_not_hold_up_a_drain(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS | {"drain.timeout.ms": "9000"}) as world:
        old, new = await two(world)
        client = old.world.connect()
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                while True:
                    await brokers(client)
                    await trio.sleep(1)

            nursery.start_soon(ask)
            began = trio.current_time()
            await old.gateway.drain()
            assert 6 <= trio.current_time() - began < 9
            nursery.cancel_scope.cancel()
        await trio.sleep(1)
        assert len(new.gateway.coordinator.state.gateways.brokers()) == 1


async def test_a_log_that_is_away_at_first_does_not_cut_a_drain_short(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, new = await two(world)
        member = await hosted(old, new)
        left = old.gateway.coordinator.incarnation
        world.log.is_away = True
        nursery.start_soon(old.gateway.drain)
        await trio.sleep(3.5)  # longer than the drain waits for an entry of the log
        world.log.is_away = False
        await trio.sleep(6)
        member.client = new.world.connect()
        assert await member.beat() == E.NONE
        await trio.sleep(6)
        await new.gateway.coordinator.catch_up()
        assert not new.gateway.coordinator.state.gateways.is_live(left)
        assert await member.beat() == E.NONE
        nursery.cancel_scope.cancel()


async def test_time_to_say_goodbye_runs_from_the_first_word(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        old, new = await two(world)
        await hosted(old, new)
        left = old.gateway.coordinator.incarnation
        world.log.is_away = True
        nursery.start_soon(old.gateway.drain)
        await trio.sleep(11)
        world.log.is_away = False
        for _ in range(8):
            await trio.sleep(1)
            await brokers(old.world.connect())  # a new client each time
        await trio.sleep(6)  # so 25 s have passed of the 30 that a drain may take
        await new.gateway.coordinator.catch_up()
        assert not new.gateway.coordinator.state.gateways.is_live(left)
        nursery.cancel_scope.cancel()
