"""Groups whose coordinator is cut off from the metadata log."""

from __future__ import annotations

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.peers.test_cut_off import BATCH, LEASE_SECONDS, SETTINGS, leaders, two
from tests.worlds.cluster.several_gateways import Member, cluster, joined
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import delete_groups as dl
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import leave_group as lv

SESSION_MS = 10_000


async def test_a_group_goes_on_elsewhere(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world:
        cut = await two(world)
        member = await joined(cut.old.world.connect(), "g", 60_000)
        await cut.is_noticed()
        assert await member.beat() == E.NOT_COORDINATOR
        assert await member.commit("t", 5) == E.NOT_COORDINATOR
        old, member.client = member.client, cut.new.world.connect()
        await trio.sleep(4 * LEASE_SECONDS)
        assert await member.beat() == E.NONE
        assert await member.commit("t", 5) == E.NONE
        member.client = old
        assert await member.beat() == E.NOT_COORDINATOR


async def test_a_cut_off_gateway_answers_members_that_wait_for_a_rebalance(
    autojump_clock: MockClock,
) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        cut = await two(world)
        await joined(cut.old.world.connect(), "g", 60_000)
        codes: list[int] = []

        async def join() -> None:
            protocols = [jg.JoinGroupRequestProtocol("range", b"")]
            request = jg.JoinGroupRequest(
                "g", 60_000, 600_000, "", protocol_type="consumer", protocols=protocols
            )
            client = cut.old.world.connect()
            request.member_id = (await client.call("JoinGroup", 9, request)).member_id
            codes.append((await client.call("JoinGroup", 9, request)).error_code)

        nursery.start_soon(join)
        await trio.sleep(1)
        assert codes == []
        await cut.is_noticed()
        await trio.sleep(1)
        assert codes == [E.NOT_COORDINATOR]


async def test_a_cut_off_gateway_answers_a_member_that_leaves(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        cut = await two(world)
        member = await joined(cut.old.world.connect(), "g", 60_000)
        cut.begin()
        await trio.sleep(1)
        codes: list[int] = []

        async def leave() -> None:
            request = lv.LeaveGroupRequest("g", member.member_id)
            codes.append((await member.client.call("LeaveGroup", 2, request)).error_code)

        nursery.start_soon(leave)
        while not cut.old.gateway.is_cut_off:
            assert codes == []
            await trio.sleep(0.1)
        await trio.sleep(1)
        assert codes == [E.NOT_COORDINATOR]
        deleted = await member.client.call("DeleteGroups", 2, dl.DeleteGroupsRequest(["g"]))
        assert [each.error_code for each in deleted.results] == [E.NOT_COORDINATOR]


async def be_a_member(member: Member) -> None:
    while True:
        await trio.sleep(3)
        await member.beat()


async def test_a_log_that_is_away_for_all_expires_no_member(autojump_clock: MockClock) -> None:
    async with cluster(SETTINGS) as world, trio.open_nursery() as nursery:
        cut = await two(world)
        member = await joined(cut.old.world.connect(), "g", SESSION_MS)
        nursery.start_soon(be_a_member, member)
        client, batch = cut.old.world.connect(), BATCH
        await trio.sleep(1)
        world.log.is_away = True
        assert (await client.produce("t", 0, batch)).error_code == E.REQUEST_TIMED_OUT
        assert cut.old.gateway.is_cut_off
        assert cut.new.gateway.is_cut_off
        for each in (cut.old, cut.new):
            again = await each.world.connect().produce("t", 0, batch)
            assert again.error_code == E.NOT_LEADER_OR_FOLLOWER
        with capture_logs() as logged:
            await trio.sleep(120)
            world.log.is_away = False
            await trio.sleep(4)
        assert len([each for each in logged if "no longer cut off" in each["event"]]) == 2
        answer = await client.produce("t", 0, batch)
        assert (answer.error_code, answer.base_offset) == (E.NONE, 0)
        await trio.sleep(30)
        assert set(member.answers) == {E.NONE, E.NOT_COORDINATOR}
        assert set(member.answers[-8:]) == {E.NONE}
        assert set(cut.new.gateway.coordinator.state.gateways.live) == {1, 2}
        assert await leaders(client) == {1, 2}
        nursery.cancel_scope.cancel()
