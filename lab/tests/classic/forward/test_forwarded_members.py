"""Members of a group of a classic cluster, the model, come through gateways, and move here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import ClassicClient
from tests.worlds.classic_members import (
    GROUP,
    SESSION_SECONDS,
    Member,
    join_together,
    sync_together,
)
from tidegate_coordination.groups.values import State
from tidegate_coordination.rules.migration.group_moves import FenceGroups, MoveGroups, UnfenceGroups
from tidegate_gateway.migration import fence_ages
from tidegate_gateway.migration.units import group_move
from tidegate_gateway.migration.units.group_move import Moved
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import describe_groups as sg
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import leave_group as lv
from tidegate_protocol.messages import list_groups as lg
from tidegate_protocol.messages import offset_delete as od
from tidegate_simulation.classic.profiles import KAFKA_2_1, KAFKA_3_9, KAFKA_4_3, Profile

from ..test_mirrors import World, becomes, mirroring
from .test_forwarded_groups import at_source, call, fetch, linked, moved, propose, state


def at_gateway(world: World, at: int = 0, instance_id: str | None = None) -> Member:
    """Return a member that has not joined yet, connected to a gateway."""
    return Member(cast("ClassicClient", world.gateways[at].world.connect()), instance_id)


async def at_broker(world: World) -> Member:
    """Return a member that has not joined yet, connected to the source."""
    node = world.source.nodes[world.source.coordinator_of(GROUP)]
    client = ClassicClient(await world.servers.dial(node.host, node.port))
    return Member(client)


@asynccontextmanager
async def two_members() -> AsyncIterator[tuple[World, Member, Member]]:
    """A group of two members, each at a gateway of its own; the first one leads."""
    async with mirroring(gateways=2) as world:
        await linked(world, GROUP)
        first, second = at_gateway(world), at_gateway(world, 1)
        await join_together(first, second)
        await sync_together(first, second, leader=first)
        yield world, first, second


async def homed(world: World, *members: Member) -> None:
    """Connect the members to the gateway that holds the group's claim now."""
    claim = state(world).claims.get(f"group/{GROUP}")
    assert claim is not None
    for at, each in enumerate(world.gateways):
        if each.gateway.coordinator.incarnation == claim.incarnation:
            for one in members:
                one.client = cast("ClassicClient", world.gateways[at].world.connect())


async def described(world: World, at: int = 0) -> sg.DescribedGroup:
    request = sg.DescribeGroupsRequest([GROUP])
    [group] = (await call(world, "DescribeGroups", 6, request, at)).groups
    found: sg.DescribedGroup = group
    return found


async def test_members_of_both_sides_are_one_group(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world, GROUP)
        members = [at_gateway(world), at_gateway(world, 1), await at_broker(world)]
        answers = await join_together(*members)
        assert {each.generation_id for each in answers} == {1}
        assert sorted(len(each.members) for each in answers) == [0, 0, 3]
        [leader] = [each for each in members if each.member_id == answers[0].leader]
        await sync_together(*members, leader=leader)
        assert [each.assignment.decode() for each in members] == [e.member_id for e in members]
        for each in members:
            assert await each.heartbeat() == E.NONE
            assert await each.commit(3) == E.NONE
            assert await each.commit(4, generation_id_or_member_epoch=0) == E.ILLEGAL_GENERATION
        assert await members[0].leave() == E.NONE
        assert await members[1].heartbeat() == E.REBALANCE_IN_PROGRESS
        assert state(world).groups.get(GROUP) is None


async def test_the_source_sees_the_clients_names(autojump_clock: MockClock) -> None:
    async with two_members() as (world, first, _):
        assert first.member_id.startswith("test-")
        for at in (0, 1):
            group = await described(world, at)
            assert {each.client_id for each in group.members} == {"test"}
            assert (group.group_state, len(group.members)) == (State.STABLE.value, 2)


async def test_a_group_moves_without_a_rebalance(autojump_clock: MockClock) -> None:
    async with two_members() as (world, first, second):
        assert await first.commit(5) == E.NONE
        assert await moved(world, GROUP) == Moved(GROUP, 1, "", 2)
        await homed(world, first, second)
        for each in (first, second):
            assert await each.heartbeat() == E.NONE
        group = await described(world)
        assert (group.group_state, group.protocol_data) == (State.STABLE.value, "range")
        ids = {each.member_id: bytes(each.member_assignment) for each in group.members}
        assert ids == {each.member_id: each.member_id.encode() for each in (first, second)}
        assert await fetch(world, group=GROUP) == 5
        assert await second.commit(7) == E.NONE
        assert await fetch(world, group=GROUP) == 7
        left = at_source(world, GROUP)
        assert left is not None
        assert left.offset == 5
        # The group continues as any other: a third member makes the others join again.
        third = at_gateway(world)
        await homed(world, third)
        generation = first.generation
        answers = await join_together(third, first, second)
        assert [each.generation_id for each in answers] == [generation + 1] * 3


async def test_a_move_whose_answer_is_lost_is_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_members() as (world, first, _):
        assert await first.commit(5) == E.NONE
        coordinator = world.gateways[0].gateway.coordinator
        real = coordinator.propose

        async def propose_and_lose(proposal: Any) -> Any:
            answer = await real(proposal)
            if isinstance(proposal, MoveGroups):
                await trio.sleep_forever()
            return answer

        monkeypatch.setattr(coordinator, "propose", propose_and_lose)
        assert await moved(world, GROUP) == Moved(GROUP, 1, "", 2)


async def test_a_member_of_the_source_keeps_the_group_there(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world, GROUP)
        members = [at_gateway(world), await at_broker(world)]
        await join_together(*members)
        await sync_together(*members, leader=members[0])
        told = await moved(world, GROUP)
        assert "1 of its members do not come through gateways" in told.problem
        assert not state(world).link_groups.fences
        assert await members[0].heartbeat() == E.NONE


async def test_members_that_gateways_know_in_part_join_again(autojump_clock: MockClock) -> None:
    """The gateways have forgotten the first member, as after a restart."""
    async with two_members() as (world, first, second):
        for gateway in world.gateways:
            gateway.gateway.forwarding.group_forwards.members.forget(GROUP, first.member_id)
        assert await first.heartbeat() == E.NONE
        assert await first.commit(5) == E.NONE
        assert await moved(world, GROUP) == Moved(GROUP, 1, "", 2, joins_again=True)
        assert await fetch(world, group=GROUP) == 5
        await homed(world, first, second)
        generation = first.generation
        for each in (first, second):
            assert await each.heartbeat() == E.UNKNOWN_MEMBER_ID
            each.member_id = ""
        answers = await join_together(first, second)
        assert [each.generation_id for each in answers] == [generation + 1] * 2


async def test_a_fence_ends_a_join_that_waits_at_the_source(autojump_clock: MockClock) -> None:
    async with two_members() as (world, first, _):
        answers: list[jg.JoinGroupResponse] = []

        async def join() -> None:
            answers.append(await first.join())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join)
            await trio.sleep(1)
            assert world.gateways[0].gateway.forwarding.group_forwards.open == 1
            begun = trio.current_time()
            assert await propose(world, FenceGroups("src", (GROUP,))) == 1
        assert [each.error_code for each in answers] == [E.COORDINATOR_LOAD_IN_PROGRESS]
        assert trio.current_time() - begun < 1


async def test_sessions_last_while_a_fence_stands(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the group stays at the source, the source must not have expired the sessions meanwhile."""
    monkeypatch.setattr(fence_ages, "GROUPS", fence_ages.Patience(60.0, 60.0))
    async with two_members() as (world, first, second):
        assert await propose(world, FenceGroups("src", (GROUP,))) == 1
        await becomes(lambda: not state(world).link_groups.fences[1].awaited)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.live, 2.5 * SESSION_SECONDS)
            nursery.start_soon(second.live, 2.5 * SESSION_SECONDS)
        assert await propose(world, UnfenceGroups(1, "")) is True
        assert [await each.heartbeat() for each in (first, second)] == [E.NONE, E.NONE]


async def test_a_group_that_rebalances_stays(autojump_clock: MockClock) -> None:
    async with two_members() as (world, first, _), trio.open_nursery() as nursery:
        nursery.start_soon(first.join)
        await trio.sleep(1)
        told = await moved(world, GROUP)
        assert "PreparingRebalance at the source: try again" in told.problem
        nursery.cancel_scope.cancel()


async def test_a_commit_under_way_counts(autojump_clock: MockClock) -> None:
    """The fence waits for the commit, so that the move reads the committed offset."""
    async with two_members() as (world, first, _):
        assert await first.commit(5) == E.NONE
        world.servers.latency_seconds = 0.5
        codes: list[int] = []

        async def commit() -> None:
            codes.append(await first.commit(8))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit)
            await trio.sleep(0.1)
            told = await moved(world, GROUP)
        assert (codes, told.problem) == ([E.NONE], "")
        assert await fetch(world, group=GROUP) == 8


async def test_a_member_that_the_source_keeps_is_not_forgotten(autojump_clock: MockClock) -> None:
    async with two_members() as (world, first, second):
        request = lv.LeaveGroupRequest(
            GROUP, members=[lv.MemberIdentity("stranger"), lv.MemberIdentity(second.member_id)]
        )
        answer = await call(world, "LeaveGroup", 5, request, 1)
        assert [each.error_code for each in answer.members] == [E.UNKNOWN_MEMBER_ID, E.NONE]
        for at, kept in enumerate([[first.member_id], []]):
            members = world.gateways[at].gateway.forwarding.group_forwards.members
            found = members.of({GROUP}, trio.current_time())
            assert [each.member_id for each in found] == kept


async def test_a_member_that_joins_the_source_meanwhile_keeps_the_group_there(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_members() as (world, first, _):
        assert await first.commit(5) == E.NONE
        late = await at_broker(world)
        real = group_move.of_link
        async with trio.open_nursery() as nursery:

            async def of_link(own: Any, *arguments: Any) -> Any:
                if own.link_groups.fences:
                    nursery.start_soon(late.join)
                    await trio.sleep(1)
                return await real(own, *arguments)

            monkeypatch.setattr(group_move, "of_link", of_link)
            told = await moved(world, GROUP)
            nursery.cancel_scope.cancel()
        assert "PreparingRebalance at the source" in told.problem
        assert state(world).groups.get(GROUP) is None


async def test_joins_leave_room_for_heartbeats(autojump_clock: MockClock) -> None:
    async with two_members() as (world, first, _):
        running = world.gateways[0].gateway.links.running["src"]
        assert running.group_lines is not None
        running.group_lines.max_lines = 2
        others = [at_gateway(world) for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for each in others:
                nursery.start_soon(each.join)
            await trio.sleep(1)
            assert await first.heartbeat() == E.REBALANCE_IN_PROGRESS
            nursery.cancel_scope.cancel()


async def test_requests_that_wait_are_bounded(autojump_clock: MockClock) -> None:
    async with two_members() as (world, first, _):
        forwards = world.gateways[0].gateway.forwarding.group_forwards
        running = world.gateways[0].gateway.links.running["src"]
        assert running.group_lines is not None
        running.group_lines.max_lines = 1
        other = at_gateway(world)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.join)
            await becomes(lambda: forwards.open == 1)
            refused = await other.join_once()
            assert refused.error_code == E.COORDINATOR_NOT_AVAILABLE
            nursery.cancel_scope.cancel()


async def test_tools_see_and_change_the_sources_groups(autojump_clock: MockClock) -> None:
    async with two_members() as (world, first, second):
        assert await first.commit(5) == E.NONE
        listed = [await call(world, "ListGroups", 5, lg.ListGroupsRequest(), at) for at in (0, 1)]
        names = [(each.group_id, each.group_state) for answer in listed for each in answer.groups]
        assert names == [(GROUP, State.STABLE.value)]
        deletion = dg.DeleteGroupsRequest([GROUP, "other"])
        assert await _codes(world, deletion) == [E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND]
        for each in (first, second):
            await each.leave()
        topic = od.OffsetDeleteRequestTopic("t", [od.OffsetDeleteRequestPartition(0)])
        answer = await call(world, "OffsetDelete", 0, od.OffsetDeleteRequest(GROUP, [topic]))
        assert answer.topics[0].partitions[0].error_code == E.NONE
        assert await fetch(world, group=GROUP) == -1
        assert await _codes(world, deletion) == [E.NONE, E.GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize("profile", [KAFKA_2_1, KAFKA_3_9, KAFKA_4_3])
async def test_lists_are_filtered(profile: Profile, autojump_clock: MockClock) -> None:
    async with mirroring(profile=profile) as world:
        await linked(world, GROUP)
        member = at_gateway(world)
        await member.join(3 if profile is KAFKA_2_1 else 9)
        for types, is_shown in (("", True), ("consumer", False)):
            request = lg.ListGroupsRequest([], [types] if types else [])
            answer = await call(world, "ListGroups", 5, request)
            assert [each.group_id for each in answer.groups] == [GROUP] * is_shown
        request = lg.ListGroupsRequest(["CompletingRebalance"], ["classic"])
        answer = await call(world, "ListGroups", 5, request)
        is_told = profile is not KAFKA_2_1  # older brokers do not say the state
        assert [each.group_id for each in answer.groups] == [GROUP] * is_told


async def _codes(world: World, request: dg.DeleteGroupsRequest) -> list[int]:
    answer: Any = await call(world, "DeleteGroups", 2, request)
    return [each.error_code for each in answer.results]
