"""The model's groups, as tools see them."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.classic_client import ClassicClient, classic_world
from tests.worlds.classic_members import (
    GROUP,
    SUBSCRIPTION,
    described,
    member,
    stable_group,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_groups as sg
from tidegate_protocol.messages import list_groups as lg
from tidegate_simulation.classic.model_topics import CommittedOffset, PartitionKey
from tidegate_simulation.classic.rights import CLUSTER, DESCRIBE, Denial
from tidegate_simulation.classic.rights import GROUP as GROUP_RESOURCE

NONE = ErrorCode.NONE
T0 = PartitionKey("t", 0)
OFFSET = CommittedOffset(7, -1, "")


async def test_tools_see_the_members_of_a_stable_group(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, None, "two")
        group = await described(world)
        assert (group.error_code, group.group_state) == (NONE, "Stable")
        assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
        assert [
            (each.member_id, each.group_instance_id, each.client_id, each.client_host)
            for each in group.members
        ] == [
            (first.member_id, None, "test", "/127.0.0.1"),
            (second.member_id, "two", "test", "/127.0.0.1"),
        ]
        assert [(each.member_metadata, each.member_assignment) for each in group.members] == [
            (SUBSCRIPTION, each.member_id.encode()) for each in (first, second)
        ]


async def test_tools_see_each_state_of_a_group(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        found = await described(world)
        assert (found.error_code, found.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        found = await described(world, 5)
        assert (found.error_code, found.group_state) == (NONE, "Dead")
        first, second = await member(world), await member(world)
        await first.join_once()
        assert (await described(world)).group_state == "Empty"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.join)
            await wait_all_tasks_blocked()
            found = await described(world)
            assert (found.group_state, found.protocol_data) == ("PreparingRebalance", "")
            assert [each.member_metadata for each in found.members] == [b""]
            nursery.start_soon(second.join)
        assert (await described(world)).group_state == "CompletingRebalance"
        await first.sync({})
        assert (await described(world)).group_state == "Stable"


async def test_describes_need_the_right_and_the_coordinator(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        await stable_group(world, None)
        world.cluster.rights.denied.add(Denial(DESCRIBE, GROUP_RESOURCE, "denied"))
        client = await world.client(2)
        request = sg.DescribeGroupsRequest([GROUP, "gg", "denied"], True)
        groups = (await client.call("DescribeGroups", 6, request)).groups
        assert [(each.group_id, each.error_code) for each in groups] == [
            ("denied", ErrorCode.GROUP_AUTHORIZATION_FAILED),
            (GROUP, NONE),
            ("gg", ErrorCode.NOT_COORDINATOR),
        ]
        bits = [each.authorized_operations for each in groups]
        assert bits == [-(2**31), 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11, -(2**31)]


async def listed(client: ClassicClient, states: list[str], types: list[str]) -> list[str]:
    """Return the groups that pass the filters."""
    answer = await client.call("ListGroups", 5, lg.ListGroupsRequest(states, types))
    assert answer.error_code == NONE
    return [each.group_id for each in answer.groups]


async def test_each_broker_lists_its_own_groups(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        await stable_group(world, None)
        for group_id in ("gg", "ggg"):
            world.cluster.commit_offset(group_id, T0, OFFSET)
        other, client = await world.client(1), await world.client(2)
        assert await listed(other, [], []) == ["gg"]
        assert await listed(client, [], []) == [GROUP, "ggg"]
        assert await listed(client, ["STABLE"], []) == [GROUP]
        assert await listed(client, ["Empty", "Stable"], ["Classic"]) == [GROUP, "ggg"]
        assert await listed(client, [], ["consumer"]) == []
        [row, _] = (await client.call("ListGroups", 5, lg.ListGroupsRequest())).groups
        assert (row.protocol_type, row.group_state, row.group_type) == (
            "consumer",
            "Stable",
            "classic",
        )
        world.cluster.begin_loading("ggg", trio.current_time())
        answer = await client.call("ListGroups", 5, lg.ListGroupsRequest())
        assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


async def test_lists_show_silent_groups_as_empty(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        await stable_group(world, None)
        await trio.sleep(60)
        assert await listed(await world.client(), ["Empty"], []) == [GROUP]


async def test_lists_leave_out_groups_without_the_right(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.cluster.commit_offset("open", T0, OFFSET)
        world.cluster.commit_offset("closed", T0, OFFSET)
        client, denied = await world.client(), world.cluster.rights.denied
        denied.add(Denial(DESCRIBE, GROUP_RESOURCE, "closed"))
        assert await listed(client, [], []) == [
            "open",
            "closed",
        ]  # DESCRIBE of the cluster is enough
        denied.add(Denial(DESCRIBE, CLUSTER))
        assert await listed(client, [], []) == ["open"]
