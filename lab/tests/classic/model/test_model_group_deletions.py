"""Deletions of the model's groups, and of their offsets."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import ClassicClient, classic_world
from tests.worlds.classic_members import (
    GROUP,
    deleted,
    described,
    join_together,
    member,
    stable_group,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import offset_delete as od
from tidegate_simulation.classic.model_topics import CommittedOffset, PartitionKey
from tidegate_simulation.classic.rights import DELETE, READ, TOPIC, Denial
from tidegate_simulation.classic.rights import GROUP as GROUP_RESOURCE

NONE = ErrorCode.NONE
T0 = PartitionKey("t", 0)
OFFSET = CommittedOffset(7, -1, "")


async def test_only_groups_without_members_are_deleted(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        assert await deleted(world) == ErrorCode.GROUP_ID_NOT_FOUND
        [only] = await stable_group(world, None)
        await only.commit(7)
        assert await deleted(world) == ErrorCode.NON_EMPTY_GROUP
        await only.leave()
        assert await deleted(world) == NONE
        assert (await described(world)).group_state == "Dead"
        assert world.cluster.groups == {}
        assert await only.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_silent_group_can_be_deleted(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        await stable_group(world, None)
        await trio.sleep(60)
        assert await deleted(world) == NONE


async def test_deletions_need_the_right_and_the_coordinator(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        for group_id in (GROUP, "gg", "denied"):
            world.cluster.commit_offset(group_id, T0, OFFSET)
        world.cluster.rights.denied.add(Denial(DELETE, GROUP_RESOURCE, "denied"))
        client = await world.client(2)
        request = dg.DeleteGroupsRequest(["denied", GROUP, "gg", GROUP])
        results = (await client.call("DeleteGroups", 2, request)).results
        assert [(each.group_id, each.error_code) for each in results] == [
            (GROUP, NONE),
            ("gg", ErrorCode.NOT_COORDINATOR),
            ("denied", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ]
        assert set(world.cluster.groups) == {"gg", "denied"}


async def offset_delete(
    client: ClassicClient, *topics: str, group_id: str = GROUP
) -> tuple[int, list[int]]:
    """Delete the offset of partition 0 of each topic; return the group's error and the topics'."""
    rows = [
        od.OffsetDeleteRequestTopic(each, [od.OffsetDeleteRequestPartition(0)]) for each in topics
    ]
    request = od.OffsetDeleteRequest(group_id, rows)
    answer: od.OffsetDeleteResponse = await client.call("OffsetDelete", 0, request)
    return answer.error_code, [each.partitions[0].error_code for each in answer.topics]


async def test_offsets_of_subscribed_topics_stay(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.cluster.create_topic("other", 1)
        [only] = await stable_group(world, None)
        offsets = world.cluster.groups[GROUP].offsets
        offsets |= {T0: OFFSET, PartitionKey("other", 0): OFFSET}
        client = await world.client()
        assert await offset_delete(client, "t", "other", "no") == (
            NONE,
            [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        )
        assert set(offsets) == {T0}
        await only.leave()
        assert await offset_delete(client, "t", "other") == (NONE, [NONE, NONE])
        assert not offsets


@pytest.mark.parametrize("metadata", [b"", b"\0\0\0\0\0\1"])
async def test_unreadable_subscriptions_keep_all_offsets(
    metadata: bytes, autojump_clock: MockClock
) -> None:
    async with classic_world() as world:
        only = await member(world)
        only.protocols = [jg.JoinGroupRequestProtocol("range", metadata)]
        await join_together(only)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert await offset_delete(await world.client(), "t") == (NONE, [code])


async def test_other_refusals_of_offset_deletions(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        client = await world.client(2)
        assert await offset_delete(client, "t") == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert await offset_delete(client, "t", group_id="") == (ErrorCode.INVALID_GROUP_ID, [])
        assert await offset_delete(client, "t", group_id="gg") == (ErrorCode.NOT_COORDINATOR, [])
        only = await member(world)
        only.protocol_type = "connect"
        await join_together(only)
        assert await offset_delete(client, "t") == (ErrorCode.NON_EMPTY_GROUP, [])
        await only.leave()
        denied = world.cluster.rights.denied
        denied.add(Denial(READ, TOPIC, "t"))
        assert await offset_delete(client, "t") == (NONE, [ErrorCode.TOPIC_AUTHORIZATION_FAILED])
        denied.add(Denial(DELETE, GROUP_RESOURCE))
        assert await offset_delete(client, "t") == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
