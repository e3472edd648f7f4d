"""If the metadata log fails for a minute, no member, no gateway, and no producer expires."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, Cluster, Member, Running, cluster, joined
from tests.worlds.wire_client import records_batch
from tidegate_protocol.error_codes import ErrorCode as E

OUTAGE_SECONDS = 60.0
SETTINGS = {"lease.ms": "10000", "group.initial.rebalance.delay.ms": "0"}


async def be_a_member(member: Member) -> None:
    """Send heartbeats and commits on one connection; each waits for the one before."""
    for turn in range(1_000_000):
        await trio.sleep(3)
        await member.beat()
        if turn % 2:
            await member.commit("t", turn)


async def two_gateways(world: Cluster) -> tuple[Running, Running]:
    one = await world.start(1, Clock())
    two = await world.start(2, Clock(0.5))
    await one.world.create_topic("t", 1)
    return one, two


async def serving(gateways: tuple[Running, ...], group_id: str) -> Running:
    """Return the gateway that coordinates the group."""
    [found] = [
        each
        for each in gateways
        if (claim := each.gateway.coordinator.state.claims.get(f"group/{group_id}")) is None
        or claim.incarnation == each.gateway.coordinator.incarnation
    ][:1]
    return found


@pytest.mark.parametrize("is_silent", [False, True])
async def test_members_with_short_sessions_stay_in_their_group(
    autojump_clock: MockClock, is_silent: bool
) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        one, _ = await two_gateways(world)
        member = await joined(one.world.connect(), "g", session_ms=8_000)
        nursery.start_soon(be_a_member, member)
        await trio.sleep(20)
        world.log.is_silent = is_silent
        world.log.is_away = True
        await trio.sleep(OUTAGE_SECONDS)
        world.log.is_away = False
        await trio.sleep(30)
        # The outage is longer than a lease, and no gateway knows that the others are cut off, too.
        assert set(member.answers) == {E.NONE, E.NOT_COORDINATOR}
        assert set(member.answers[-5:]) == {E.NONE}
        assert len(member.answers) > 20
        group = one.gateway.coordinator.state.groups.get("g")
        assert group is not None
        assert group.generation == member.generation
        assert await member.commit("t", 99) == E.NONE
        nursery.cancel_scope.cancel()


async def test_gateways_keep_their_leases(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        one, two = await two_gateways(world)
        incarnations = {each.gateway.coordinator.incarnation for each in (one, two)}
        world.log.is_away = True
        await trio.sleep(OUTAGE_SECONDS)
        world.log.is_away = False
        await trio.sleep(60)
        for each in (one, two):
            assert set(each.gateway.coordinator.state.gateways.live) == incarnations


async def test_batches_produced_during_an_outage_are_committed_once(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world:
        one, two = await two_gateways(world)
        batch = records_batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
        world.log.is_away = True
        first = await one.world.connect().produce("t", 0, batch)
        assert first.error_code == E.REQUEST_TIMED_OUT
        world.log.is_away = False
        await trio.sleep(5)
        again = await two.world.connect().produce("t", 0, batch)
        assert (again.error_code, again.base_offset) == (E.NONE, 0)
        assert await two.world.connect().fetch_values("t", 0, 0) == [b"v"]


async def test_a_gateway_that_starts_meanwhile_serves_afterwards(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        await two_gateways(world)
        started: list[Running] = []

        async def start_third() -> None:
            started.append(await world.start(3, Clock()))

        world.log.is_away = True
        nursery.start_soon(start_third)
        await trio.sleep(OUTAGE_SECONDS)
        world.log.is_away = False
        await trio.sleep(10)
        assert len(started) == 1
