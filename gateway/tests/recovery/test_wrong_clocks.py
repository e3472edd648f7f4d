"""Wall clocks that are wrong, or leap: no record is deleted early and no gateway expires
wrongly.
"""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, Member, Running, cluster, joined
from tests.worlds.wire_client import NOW_MS, records_batch
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_gateway.startup import NodeIdInUse, register
from tidegate_protocol.error_codes import ErrorCode as E

MINUTE, HOUR, YEAR = 60.0, 3_600.0, 365 * 86_400.0
OFFSETS = {"true": 0.0, "behind": -HOUR, "ahead": YEAR}
ORDERS = (("true", "behind", "ahead"), ("behind", "ahead", "true"), ("ahead", "true", "behind"))
SETTINGS = {
    "lease.ms": "120000",
    "housekeeping.interval.ms": "60000",
    "group.initial.rebalance.delay.ms": "0",
}
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


async def write(gateway: Running, topic: str, sequence: int, **stamps: str) -> None:
    if topic not in gateway.gateway.coordinator.state.topics.by_name:
        await gateway.world.create_topic(topic, 1, **stamps)
    batch = records_batch(b"%d" % sequence, base_sequence=sequence, **PRODUCER)
    answer = await gateway.world.connect().produce(topic, 0, batch)
    assert answer.error_code == E.NONE


async def fill(gateway: Running) -> None:
    """Write records with time stamps of producer and gateway; retention is the default week."""
    await write(gateway, "sent", 0)
    await write(gateway, "stamped", 0, message_timestamp_type="LogAppendTime")


def partition_of(gateway: Running, topic: str) -> Partition:
    state = gateway.gateway.coordinator.state
    return state.partitions[state.topics.by_name[topic].partition_numbers[0]]


def assert_nothing_is_lost(gateways: list[Running]) -> None:
    live = {each.gateway.coordinator.incarnation for each in gateways}
    for gateway in gateways:
        state = gateway.gateway.coordinator.state
        assert set(state.gateways.live) == live
        for topic in ("sent", "stamped"):
            assert partition_of(gateway, topic).log_start == 0
            assert set(partition_of(gateway, topic).producers) == {7}


async def be_a_member(member: Member) -> None:
    for offset in range(1_000_000):
        await trio.sleep(12)
        await member.beat()
        if offset % 10 == 0:
            await member.commit("sent", offset)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
async def test_three_gateways_of_which_two_are_wrong(
    autojump_clock: MockClock, order: tuple[str, ...]
) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        gateways: list[Running] = []
        for node_id, name in enumerate(order, start=1):
            gateways.append(await world.start(node_id, Clock(OFFSETS[name])))
            await trio.sleep(MINUTE)
        await fill(gateways[0])
        member = await joined(gateways[1].world.connect(), "g", session_ms=30_000)
        nursery.start_soon(be_a_member, member)
        await trio.sleep(HOUR + 3 * MINUTE)  # an hour after a leap at the start, expiry resumes
        assert_nothing_is_lost(gateways)
        assert set(member.answers) == {E.NONE}
        assert partition_of(gateways[2], "sent").next_offset == 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("leap", [YEAR, -HOUR, HOUR / 2, -YEAR])
async def test_clocks_that_leap_there_and_back(
    autojump_clock: MockClock, count: int, leap: float
) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        gateways = [await world.start(node_id, Clock()) for node_id in range(1, count + 1)]
        await fill(gateways[0])
        member = await joined(gateways[0].world.connect(), "g", session_ms=30_000)
        nursery.start_soon(be_a_member, member)
        rng = Random(leap)
        for gateway in gateways:
            await trio.sleep(rng.uniform(1, 100))
            gateway.clock.offset_seconds = leap
            await trio.sleep(rng.choice((0.5, 20, 300)))
            gateway.clock.offset_seconds = 0.0
        await trio.sleep(5 * MINUTE)
        gateways[-1].clock.offset_seconds = leap
        await trio.sleep(5 * MINUTE)
        assert_nothing_is_lost(gateways)
        assert set(member.answers) == {E.NONE}
        gateways[-1].clock.offset_seconds = 0.0
        await write(gateways[0], "sent", 1)
        nursery.cancel_scope.cancel()


async def test_the_house_is_kept_although_one_clock_is_wrong(autojump_clock: MockClock) -> None:
    brief = {"retention_ms": "60000", "message_timestamp_type": "LogAppendTime"}
    async with cluster(SETTINGS) as world:
        first = await world.start(1, Clock())
        await trio.sleep(2 * MINUTE)
        holds = first.gateway.coordinator.state.claims.get("housekeeper")
        assert holds is not None
        assert holds.incarnation == first.gateway.coordinator.incarnation
        second, _ = [await world.start(node_id, Clock()) for node_id in (2, 3)]
        first.clock.offset_seconds = YEAR
        await write(second, "brief", 0, **brief)
        await trio.sleep(10 * MINUTE)
        assert partition_of(second, "brief").log_start == 1


async def test_a_cluster_whose_first_clock_was_wrong_deletes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        ahead = await world.start(1, Clock(YEAR))
        await fill(ahead)
        await trio.sleep(MINUTE / 2)
        others = [await world.start(node_id, Clock()) for node_id in (2, 3)]
        await ahead.drain()
        await trio.sleep(20 * MINUTE)
        assert_nothing_is_lost(others)


async def test_a_gateway_whose_clock_went_back_is_not_taken_for_dead(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        alive = await world.start(1, Clock())
        await trio.sleep(MINUTE)
        alive.clock.offset_seconds = -HOUR
        refused = Coordinator(
            world.log, ClusterState(), rng=Random(9), wall_clock=lambda: NOW_MS / 1000
        )
        nursery.start_soon(refused.run)
        await refused.catch_up()
        with pytest.raises(NodeIdInUse):
            await register(refused, Register(1, "other key", "az1", (), "0", "c"))
        nursery.cancel_scope.cancel()
