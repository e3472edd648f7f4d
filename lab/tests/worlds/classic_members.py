"""Members of the group "g" of a model cluster, each on a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from tests.worlds.classic_client import ClassicClient, ClassicWorld
from tidegate_protocol.consumer_protocol import encode_subscription
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import describe_groups as sg
from tidegate_protocol.messages import heartbeat as hb
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import leave_group as lv
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import sync_group as sy
from tidegate_protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

GROUP = "g"
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(["t"]))
SESSION_SECONDS = 10.0
REBALANCE_SECONDS = 60.0
PENDING_JOIN = 79  # MEMBER_ID_REQUIRED


class Member:
    """generation: of its last join.  assignment: of its last sync."""

    def __init__(self, client: ClassicClient, instance_id: str | None = None) -> None:
        self.client = client
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.assignment = b""
        self.protocols = [jg.JoinGroupRequestProtocol("range", SUBSCRIPTION)]
        self.protocol_type = "consumer"

    def join_request(self, **changes: Any) -> jg.JoinGroupRequest:
        """Return a join; changes: of its fields."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": int(SESSION_SECONDS * 1000),
            "rebalance_timeout_ms": int(REBALANCE_SECONDS * 1000),
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": self.protocols,
        }
        return jg.JoinGroupRequest(**(fields | changes))

    async def join(self, version: int = 9, **changes: Any) -> jg.JoinGroupResponse:
        """Join, a second time if an id is required; return the answer."""
        answer = await self.join_once(version, **changes)
        if answer.error_code == PENDING_JOIN:
            answer = await self.join_once(version, **changes)
        return answer

    async def join_once(self, version: int = 9, **changes: Any) -> jg.JoinGroupResponse:
        """Send one join; take over the member id of its answer."""
        request = self.join_request(**changes)
        answer: jg.JoinGroupResponse = await self.client.call("JoinGroup", version, request)
        if answer.error_code in (0, PENDING_JOIN):
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def sync(
        self, assignments: Mapping[str, bytes] | None = None, *, version: int = 5
    ) -> int:
        """Sync; return the error."""
        given = [sy.SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()]
        request = sy.SyncGroupRequest(
            GROUP,
            self.generation,
            self.member_id,
            self.instance_id,
            self.protocol_type,
            "range",
            given,
        )
        answer: sy.SyncGroupResponse = await self.client.call("SyncGroup", version, request)
        self.assignment = bytes(answer.assignment)
        return answer.error_code

    async def heartbeat(self, **changes: Any) -> int:
        """Return the error of a heartbeat."""
        fields = (GROUP, self.generation, self.member_id, self.instance_id)
        request = hb.HeartbeatRequest(*fields)
        for name, value in changes.items():
            setattr(request, name, value)
        code: int = (await self.client.call("Heartbeat", 4, request)).error_code
        return code

    async def live(self, seconds: float) -> int:
        """Send heartbeats for some time; return the first error, at once."""
        until = trio.current_time() + seconds
        while trio.current_time() < until:
            code = await self.heartbeat()
            if code:
                return code
            await trio.sleep(1)
        return 0

    async def leave(self) -> int:
        """Leave; return the error of the member."""
        identity = lv.MemberIdentity(self.member_id, self.instance_id)
        request = lv.LeaveGroupRequest(GROUP, members=[identity])
        answer: lv.LeaveGroupResponse = await self.client.call("LeaveGroup", 5, request)
        assert answer.error_code == 0
        return answer.members[0].error_code

    async def commit(self, offset: int, *, version: int = 8, **changes: Any) -> int:
        """Return the error of a commit of t-0."""
        topic = oc.OffsetCommitRequestTopic("t")
        topic.partitions = [oc.OffsetCommitRequestPartition(0, offset)]
        request = oc.OffsetCommitRequest(
            GROUP, self.generation, self.member_id, self.instance_id, topics=[topic]
        )
        for name, value in changes.items():
            setattr(request, name, value)
        [answer] = (await self.client.call("OffsetCommit", version, request)).topics
        code: int = answer.partitions[0].error_code
        return code

    async def connect(self, world: ClassicWorld) -> None:
        """Connect to the group's coordinator of now."""
        self.client = await world.client(world.cluster.coordinator_of(GROUP))


async def member(world: ClassicWorld, instance_id: str | None = None) -> Member:
    """Return a member to be, connected to the coordinator."""
    node_id = world.cluster.coordinator_of(GROUP)
    return Member(await world.client(node_id), instance_id)


async def join_together(*members: Member) -> list[jg.JoinGroupResponse]:
    """Let members join one after the other, and wait for all; return their answers."""
    answers: dict[Member, jg.JoinGroupResponse] = {}

    async def join(each: Member) -> None:
        answers[each] = await each.join()

    async with trio.open_nursery() as nursery:
        for each in members:
            nursery.start_soon(join, each)
            await wait_all_tasks_blocked()
    return [answers[each] for each in members]


async def sync_together(*members: Member, leader: Member) -> None:
    """Let the leader assign to each member its own id, and let all members sync."""
    given = {each.member_id: each.member_id.encode() for each in members}

    async def sync(each: Member) -> None:
        assert await each.sync(given if each is leader else None) == 0

    async with trio.open_nursery() as nursery:
        for each in members:
            nursery.start_soon(sync, each)


async def stable_group(world: ClassicWorld, *instance_ids: str | None) -> list[Member]:
    """Return the members of a stable group; the first one leads."""
    members = [await member(world, each) for each in instance_ids]
    await join_together(*members)
    await sync_together(*members, leader=members[0])
    return members


async def described(world: ClassicWorld, version: int = 6) -> sg.DescribedGroup:
    """Return the group as DescribeGroups shows it."""
    client = await world.client(world.cluster.coordinator_of(GROUP))
    request = sg.DescribeGroupsRequest([GROUP])
    [group] = (await client.call("DescribeGroups", version, request)).groups
    found: sg.DescribedGroup = group
    return found


async def deleted(world: ClassicWorld) -> int:
    """Delete the group; return the error."""
    client = await world.client(world.cluster.coordinator_of(GROUP))
    [result] = (await client.call("DeleteGroups", 2, dg.DeleteGroupsRequest([GROUP]))).results
    code: int = result.error_code
    return code
