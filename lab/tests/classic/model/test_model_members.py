"""Consumer groups with members at the model's brokers: joins, syncs, heartbeats and time-outs."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.classic_client import Closed, classic_world
from tests.worlds.classic_members import (
    GROUP,
    REBALANCE_SECONDS,
    SESSION_SECONDS,
    SUBSCRIPTION,
    Member,
    described,
    join_together,
    member,
    stable_group,
    sync_together,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import leave_group as lv
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import sync_group as sy
from tidegate_simulation.classic.profiles import KAFKA_2_1
from tidegate_simulation.classic.rights import GROUP as GROUP_RESOURCE
from tidegate_simulation.classic.rights import READ, Denial

NONE = ErrorCode.NONE
INITIAL_SECONDS = 3.0


async def test_members_join_and_get_a_generation(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await member(world), await member(world)
        assert (await first.join_once()).error_code == ErrorCode.MEMBER_ID_REQUIRED
        given = first.member_id
        assert given.startswith("test-")
        leads, follows = await join_together(first, second)
        assert trio.current_time() == 2 * INITIAL_SECONDS  # the second member extends the wait
        assert (leads.error_code, leads.generation_id, leads.protocol_name) == (0, 1, "range")
        assert (leads.leader, leads.member_id) == (given, given)
        assert [(each.member_id, each.metadata) for each in leads.members] == [
            (first.member_id, SUBSCRIPTION),
            (second.member_id, SUBSCRIPTION),
        ]
        assert (follows.generation_id, follows.leader, follows.members) == (1, given, [])
        assert follows.member_id != given


async def test_syncs_wait_for_the_leaders_assignment(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await member(world), await member(world)
        await join_together(first, second)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.sync)
            await trio.sleep(5)
            assert (await described(world)).group_state == "CompletingRebalance"
            assert await first.sync({first.member_id: b"one", second.member_id: b"two"}) == NONE
        assert (first.assignment, second.assignment) == (b"one", b"two")
        assert trio.current_time() == 2 * INITIAL_SECONDS + 5
        assert await second.sync() == NONE  # a repeat
        assert second.assignment == b"two"


async def test_a_join_waits_until_all_members_have_joined_again(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, None, None)
        third = await member(world)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(third.join)
            await wait_all_tasks_blocked()
            assert await first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
            nursery.start_soon(first.join)
            await second.live(1)
            await trio.sleep(5)
            assert third.generation == -1
            assert (await described(world)).group_state == "PreparingRebalance"
            nursery.start_soon(second.join)
        assert [each.generation for each in (first, second, third)] == [2, 2, 2]
        await sync_together(first, second, third, leader=first)
        assert await third.heartbeat() == NONE


async def test_a_rebalance_ends_without_members_that_do_not_join(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, None, None)
        began = trio.current_time()
        third = await member(world)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.join)
            nursery.start_soon(third.join)
            await wait_all_tasks_blocked()
            while trio.current_time() < began + REBALANCE_SECONDS - 1:
                assert await second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
                await trio.sleep(1)
        assert trio.current_time() == began + REBALANCE_SECONDS
        assert (first.generation, third.generation) == (2, 2)
        assert await second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


async def test_members_that_do_not_sync_are_dropped(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await member(world), await member(world)
        await join_together(first, second)
        assert await first.sync({}) == NONE
        assert await first.live(REBALANCE_SECONDS + 5) == ErrorCode.REBALANCE_IN_PROGRESS
        await first.join()
        assert first.generation == 2
        assert await second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_silent_member_expires(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, None, None)
        spoke = trio.current_time()
        assert await second.live(SESSION_SECONDS * 2) == ErrorCode.REBALANCE_IN_PROGRESS
        assert trio.current_time() == spoke + SESSION_SECONDS
        assert await second.join() is not None
        assert (second.generation, await first.heartbeat()) == (2, ErrorCode.UNKNOWN_MEMBER_ID)


async def test_a_group_of_silent_members_is_empty(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, _ = await stable_group(world, None, None)
        await trio.sleep(SESSION_SECONDS - 0.5)
        assert (await described(world)).group_state == "Stable"
        await trio.sleep(1)
        group = await described(world)
        assert (group.group_state, group.members) == ("Empty", [])
        assert await first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        first.member_id = ""
        assert (await first.join()).generation_id == 3  # the empty generation is the second one


async def test_a_late_look_finds_what_timers_would_have_left(autojump_clock: MockClock) -> None:
    """The second member's session expires; the first member then misses the rebalance."""
    async with classic_world() as world:
        first, second = await member(world), await member(world)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: first.join(session_timeout_ms=3_600_000 // 2))
            await wait_all_tasks_blocked()
            nursery.start_soon(second.join)
        await sync_together(first, second, leader=first)
        await trio.sleep(SESSION_SECONDS + REBALANCE_SECONDS + 1)
        assert (await described(world)).group_state == "Empty"


async def test_version_0_rebalances_within_the_session(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        first, second = await member(world), await member(world)
        assert (await first.join_once(0)).generation_id == 1
        assert await first.sync({}, version=0) == NONE
        began = trio.current_time()
        assert (await second.join_once(0)).generation_id == 2
        assert trio.current_time() == began + SESSION_SECONDS


async def test_an_id_that_was_given_out_lapses(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first = await member(world)
        await first.join_once()
        await trio.sleep(SESSION_SECONDS + 1)
        assert (await first.join_once()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_codes_of_heartbeats(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        first, _ = await stable_group(world, None, None)
        assert await first.heartbeat() == NONE
        assert await first.heartbeat(generation_id=0) == ErrorCode.ILLEGAL_GENERATION
        assert await first.heartbeat(member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await first.heartbeat(group_instance_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await first.heartbeat(group_id="") == ErrorCode.INVALID_GROUP_ID
        assert await first.heartbeat(group_id="gg") == ErrorCode.NOT_COORDINATOR
        assert await first.heartbeat(group_id="ggg") == ErrorCode.UNKNOWN_MEMBER_ID
        world.cluster.rights.denied.add(Denial(READ, GROUP_RESOURCE, GROUP))
        assert await first.heartbeat() == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_codes_of_joins(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        first, _ = await stable_group(world, None, None)
        other = await member(world)
        for changes, code in (
            ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
            ({"group_id": "gg"}, ErrorCode.NOT_COORDINATOR),
            ({"group_id": "ggg", "member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
            ({"group_id": "ggg", "session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
            ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ):
            answer = await other.join_once(**changes)
            assert (answer.error_code, answer.protocol_name) == (code, None), changes
        assert (await other.join_once(5, group_id="")).protocol_name == ""
        assert await first.heartbeat() == NONE
        world.cluster.rights.denied.add(Denial(READ, GROUP_RESOURCE, GROUP))
        assert (await other.join_once()).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert set(world.cluster.groups) == {GROUP}


async def test_codes_of_syncs(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        first, _ = await stable_group(world, None, None)

        async def code(group_id: str, generation: int, name: str | None = "range") -> int:
            request = sy.SyncGroupRequest(
                group_id, generation, first.member_id, None, "consumer", name
            )
            found: int = (await first.client.call("SyncGroup", 5, request)).error_code
            return found

        assert await code("", 1) == ErrorCode.INVALID_GROUP_ID
        assert await code("gg", 1) == ErrorCode.NOT_COORDINATOR
        assert await code("ggg", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await code(GROUP, 0) == ErrorCode.ILLEGAL_GENERATION
        assert await code(GROUP, 1, "other") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert await code(GROUP, 1, None) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert await code(GROUP, 1) == NONE


async def test_a_static_member_returns_without_a_rebalance(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, "one", "two")
        assert second.member_id.startswith("two-")
        began = trio.current_time()
        heir = await member(world, "two")
        answer = await heir.join()
        assert (answer.error_code, answer.generation_id) == (NONE, 1)
        assert heir.member_id not in (second.member_id, "")
        assert await heir.sync() == NONE
        assert heir.assignment == second.member_id.encode()
        assert trio.current_time() == began
        assert await second.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
        assert await second.commit(1) == ErrorCode.FENCED_INSTANCE_ID
        assert (await second.join()).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert [await each.heartbeat() for each in (first, heir)] == [NONE, NONE]


async def test_a_static_leader_returns_and_skips_the_assignment(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, _ = await stable_group(world, "one", "two")
        heir = await member(world, "one")
        answer = await heir.join()
        assert (answer.leader, answer.skip_assignment) == (heir.member_id, True)
        assert len(answer.members) == 2
        old = await member(world, "one")
        answer = await old.join(8)
        assert (answer.leader, answer.skip_assignment, answer.members) == (
            heir.member_id,
            False,
            [],
        )
        assert await first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


async def test_a_member_leaves(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, None, None)
        assert await second.leave() == NONE
        assert await first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        assert await second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert await second.leave() == ErrorCode.UNKNOWN_MEMBER_ID
        answer = await first.join()
        assert [each.member_id for each in answer.members] == [first.member_id]
        old = lv.LeaveGroupRequest(GROUP, first.member_id)
        assert (await first.client.call("LeaveGroup", 2, old)).error_code == NONE
        assert (await described(world)).group_state == "Empty"
        assert (await first.client.call("LeaveGroup", 2, old)).error_code == 25


async def test_a_rebalance_ends_when_the_last_absent_member_leaves(
    autojump_clock: MockClock,
) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, None, None)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.join)
            await wait_all_tasks_blocked()
            assert await second.leave() == NONE
        assert (first.generation, trio.current_time()) == (2, began)


async def test_a_tool_removes_a_static_member(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, "one", "two")
        client = await world.client()
        for instance_id, code in (("two", NONE), ("two", ErrorCode.UNKNOWN_MEMBER_ID)):
            request = lv.LeaveGroupRequest(GROUP, members=[lv.MemberIdentity("", instance_id)])
            answer = await client.call("LeaveGroup", 5, request)
            assert [each.error_code for each in answer.members] == [code]
        assert await second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert await first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


async def test_commits_are_checked(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await member(world), await member(world)
        await join_together(first, second)
        assert await second.commit(1) == ErrorCode.REBALANCE_IN_PROGRESS
        await sync_together(first, second, leader=first)
        assert await second.commit(2) == NONE
        assert await second.commit(3, generation_id_or_member_epoch=0) == 22
        assert await second.commit(3, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
        alone: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": ""}
        assert await second.commit(3, **alone) == ErrorCode.UNKNOWN_MEMBER_ID
        assert [each.offset for each in world.cluster.groups[GROUP].offsets.values()] == [2]
        await first.leave()
        await second.join()
        assert await second.commit(4, generation_id_or_member_epoch=1) == 22
        await second.leave()
        assert await second.commit(5, **alone) == NONE
        assert [each.offset for each in world.cluster.groups[GROUP].offsets.values()] == [5]


async def test_a_commit_keeps_a_session_alive(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        [only] = await stable_group(world, None)
        for offset in range(3):
            await trio.sleep(SESSION_SECONDS - 1)
            assert await only.commit(offset) == NONE


async def test_a_parked_join_holds_up_its_connection(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first = await member(world)
        await first.join_once()
        number = await first.client.send("JoinGroup", 9, first.join_request())
        after = await first.client.send("ListOffsets", 7, lo.ListOffsetsRequest())
        answer: jg.JoinGroupResponse = await first.client.receive("JoinGroup", 9, number)
        assert (answer.generation_id, trio.current_time()) == (1, INITIAL_SECONDS)
        await first.client.receive("ListOffsets", 7, after)


async def test_members_of_an_old_release_need_no_second_join(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        first = await member(world)
        answer = await first.join_once(3)
        assert (answer.error_code, answer.generation_id) == (NONE, 1)
        with pytest.raises(Closed):
            await first.join_once(4)


async def test_only_new_members_draw_from_the_clusters_rng(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.cluster.rng = Random(1)  # not the rng of the connections
        [first] = await stable_group(world, None)
        before = world.cluster.rng.getstate()
        await first.join()
        await first.sync({})
        await first.commit(1)
        await first.leave()
        await first.join_once()
        assert world.cluster.rng.getstate() == before
        await Member(first.client).join_once()
        assert world.cluster.rng.getstate() != before
