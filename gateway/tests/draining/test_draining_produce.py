"""A draining gateway sends its producers to others, and leads no partition in Metadata."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, cluster
from tests.worlds.wire_client import WireClient, records_batch
from tidegate_coordination.rules.gateways import StartDraining
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import metadata as md


async def leader(client: WireClient) -> int:
    request = md.MetadataRequest([md.MetadataRequestTopic(name="t")], False)
    answer = await client.call("Metadata", 12, request)
    found: int = answer.topics[0].partitions[0].leader_id
    return found


async def test_producers_move_when_a_gateway_drains(autojump_clock: MockClock) -> None:
    async with cluster() as world:
        one, two = await world.start(1, Clock()), await world.start(2, Clock())
        await one.world.create_topic("t", 1)
        client = one.world.connect()
        coordinator = one.gateway.coordinator
        for _ in range(2):  # the second one takes the fast path
            assert (await client.produce("t", 0, records_batch(b"a"))).error_code == E.NONE
        await coordinator.propose(StartDraining(coordinator.incarnation))
        refused = await client.produce("t", 0, records_batch(b"b"))
        assert refused.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert await leader(client) == 2
        await trio.sleep(2)
        answer = await two.world.connect().produce("t", 0, records_batch(b"b"))
        assert (answer.error_code, answer.base_offset) == (E.NONE, 2)


async def test_a_lone_gateway_takes_what_comes_until_it_ends(autojump_clock: MockClock) -> None:
    async with cluster() as world:
        one = await world.start(1, Clock())
        await one.world.create_topic("t", 1)
        client, coordinator = one.world.connect(), one.gateway.coordinator
        await coordinator.propose(StartDraining(coordinator.incarnation))
        assert (await client.produce("t", 0, records_batch(b"a"))).error_code == E.NONE
