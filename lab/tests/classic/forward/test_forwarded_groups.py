"""Groups of a classic cluster, the model, that gateways forward, and how they move here."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tidegate_coordination.rules.migration.group_moves import FenceGroups, UnfenceGroups
from tidegate_coordination.rules.migration.mirrors import SetLink
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.migration import fence_ages
from tidegate_gateway.migration.units.group_move import GroupMove, Moved
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as at
from tidegate_protocol.messages import describe_groups as sg
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.primitives import ZERO_UUID
from tidegate_simulation.classic.model_topics import CommittedOffset, PartitionKey
from tidegate_simulation.classic.profiles import KAFKA_2_1, KAFKA_3_9, Profile

from ..test_mirrors import World, becomes, mirroring

SERVERS = "b1:9092,b2:9092"
KEY = PartitionKey("t", 0)


async def linked(world: World, *groups: str) -> None:
    link = SetLink("src", world.source.cluster_id, SERVERS, ("t",), groups=groups or ("g*",))
    assert await propose(world, link) is None
    for _ in range(9):
        world.write(1)
    await world.copied()


async def propose(world: World, proposal: Any, at: int = 0) -> Any:
    return await world.gateways[at].gateway.coordinator.propose(proposal)


def state(world: World, at: int = 0) -> ClusterState:
    return world.gateways[at].gateway.coordinator.state


def topic_id(world: World) -> bytes:
    return state(world).topics.by_name["t"].topic_id


async def call(world: World, name: str, version: int, request: Any, at: int = 0) -> Any:
    return await world.gateways[at].world.connect().call(name, version, request)


async def commit(
    world: World, offset: int, *, group: str = "g1", version: int = 8, at: int = 0
) -> int:
    """Commit an offset of partition 0 without a member id; return the error code."""
    row = oc.OffsetCommitRequestPartition(0, offset, -1, "note")
    of_topic = oc.OffsetCommitRequestTopic("t", topic_id(world), [row])
    request = oc.OffsetCommitRequest(group, topics=[of_topic])
    answer: oc.OffsetCommitResponse = await call(world, "OffsetCommit", version, request, at)
    [told] = answer.topics
    is_by_id = version >= 10
    assert (told.name, told.topic_id) == (("", topic_id(world)) if is_by_id else ("t", ZERO_UUID))
    return told.partitions[0].error_code


async def committed(world: World, offset: int) -> None:
    """Commit an offset, and repeat the request while it is refused."""
    with trio.fail_after(60):
        while await commit(world, offset) != E.NONE:  # noqa: ASYNC110 - a client does so
            await trio.sleep(0.5)


async def fetch(
    world: World, *, group: str = "g1", version: int = 8, whole: bool = False, at: int = 0
) -> int:
    """Return the committed offset of partition 0, or less than -1 for an error."""
    if version < 8:
        rows = None if whole else [of.OffsetFetchRequestTopic("t", [0])]
        answer = await call(world, "OffsetFetch", version, of.OffsetFetchRequest(group, rows), at)
        code, topics = answer.error_code, answer.topics
    else:
        row = of.OffsetFetchRequestTopics("t", topic_id(world), [0])
        wanted = of.OffsetFetchRequestGroup(group, topics=None if whole else [row])
        request = of.OffsetFetchRequest(groups=[wanted])
        answer = await call(world, "OffsetFetch", version, request, at)
        code, topics = answer.groups[0].error_code, answer.groups[0].topics
    if code:
        return -int(code)
    [told] = topics
    if version >= 10:
        assert told.topic_id == topic_id(world)
    else:
        assert told.name == "t"
    assert not told.partitions[0].error_code
    return int(told.partitions[0].committed_offset)


def at_source(world: World, group: str = "g1") -> CommittedOffset | None:
    known = world.source.groups.get(group)
    return known.offsets.get(KEY) if known is not None else None


@pytest.mark.parametrize("version", [2, 5, 7, 8, 9, 10])
async def test_offsets_are_the_sources(version: int, autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await commit(world, 5, version=version) == E.NONE
        found = at_source(world)
        assert found is not None
        assert (found.offset, found.metadata) == (5, "note")
        assert state(world).groups.get("g1") is None
        for whole in (False, True):
            assert await fetch(world, version=version, whole=whole, at=1) == 5


@pytest.mark.parametrize("profile", [KAFKA_2_1, KAFKA_3_9])
@pytest.mark.parametrize("version", [5, 8, 10])
async def test_an_older_source_knows_no_ids_and_one_group(
    version: int, profile: Profile, autojump_clock: MockClock
) -> None:
    async with mirroring(profile=profile) as world:
        await linked(world)
        assert await commit(world, 5, version=version) == E.NONE
        for whole in (False, True):
            assert await fetch(world, version=version, whole=whole) == 5
        # Java consumers set the flag for all groups.
        row = of.OffsetFetchRequestTopics("t", topic_id(world), [0])
        wanted = of.OffsetFetchRequestGroup("g1", topics=[row])
        request = of.OffsetFetchRequest(groups=[wanted], require_stable=True)
        answer = await call(world, "OffsetFetch", 8, request)
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 5


@pytest.mark.parametrize("profile", [KAFKA_2_1, KAFKA_3_9])
async def test_an_older_source_cannot_know_an_id(
    profile: Profile, autojump_clock: MockClock
) -> None:
    async with mirroring(profile=profile) as world:
        await linked(world)
        ids = [b"x" * 16, topic_id(world), b"y" * 16]
        parts = [oc.OffsetCommitRequestPartition(0, 5)]
        topics = [oc.OffsetCommitRequestTopic("", each, parts) for each in ids]
        request = oc.OffsetCommitRequest("g1", topics=topics)
        answer = await call(world, "OffsetCommit", 10, request)
        found = {each.topic_id: each.partitions[0].error_code for each in answer.topics}
        assert found == {ids[0]: E.UNKNOWN_TOPIC_ID, ids[1]: E.NONE, ids[2]: E.UNKNOWN_TOPIC_ID}
        rows = [of.OffsetFetchRequestTopics("", each, [0]) for each in ids]
        wanted = of.OffsetFetchRequestGroup("g1", topics=rows)
        answer = await call(world, "OffsetFetch", 10, of.OffsetFetchRequest(groups=[wanted]))
        told = {each.topic_id: each.partitions[0] for each in answer.groups[0].topics}
        assert told[ids[1]].committed_offset == 5
        assert {told[each].error_code for each in (ids[0], ids[2])} == {E.UNKNOWN_TOPIC_ID}


async def test_other_groups_are_this_clusters(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world, "g1")
        assert await commit(world, 5, group="g2") == E.NONE
        assert at_source(world, "g2") is None
        assert await fetch(world, group="g2") == 5


async def test_a_source_that_is_away_is_told_as_such(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        assert await commit(world, 5) == E.NONE
        for node_id in (1, 2):
            world.servers.stop_broker(node_id)
        assert await commit(world, 6) == E.COORDINATOR_NOT_AVAILABLE
        # Java consumers below 3.9 treat COORDINATOR_NOT_AVAILABLE as fatal here.
        assert await fetch(world) == -E.NOT_COORDINATOR
        begun = trio.current_time()
        groups = [f"g{each}" for each in range(200)]
        answer = await call(world, "DescribeGroups", 5, sg.DescribeGroupsRequest(groups))
        assert [each.group_id for each in answer.groups] == groups
        assert trio.current_time() - begun < 25
        for node_id in (1, 2):
            world.servers.start_broker(node_id)
        await trio.sleep(10)
        assert await commit(world, 7) == E.NONE
        assert await fetch(world) == 7


async def test_many_groups_leave_others_their_turns(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async def refuse(group_id: str) -> str:
            return f"{group_id} was refused"

        groups = [f"g{each}" for each in range(1_000)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_turns)
            told = await world.gateways[0].gateway.forwarding.group_forwards.ask_each(
                groups, refuse, str
            )
            nursery.cancel_scope.cancel()
        assert list(told.items()) == [(each, f"{each} was refused") for each in groups]
        assert turns > 100


async def test_another_coordinator_is_found(autojump_clock: MockClock) -> None:
    """A former coordinator answers NOT_COORDINATOR, and the gateway looks up the present one."""
    async with mirroring() as world:
        await linked(world)
        assert await commit(world, 5) == E.NONE
        first = world.source.coordinator_of("g1")
        world.servers.stop_broker(first)
        await committed(world, 6)
        world.servers.start_broker(first)
        await committed(world, 7)
        found = at_source(world)
        assert found is not None
        assert found.offset == 7


async def test_a_transaction_cannot_hold_a_group_of_the_source(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        request = at.AddOffsetsToTxnRequest("id", 1, 0, "g1")
        answer = await call(world, "AddOffsetsToTxn", 3, request)
        assert answer.error_code == E.GROUP_AUTHORIZATION_FAILED


async def test_a_fence_keeps_commits_waiting(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await propose(world, FenceGroups("src", ("g1",))) == 1
        await becomes(lambda: not state(world).link_groups.fences[1].awaited)
        codes: list[int] = []

        async def late() -> None:
            codes.append(await commit(world, 5, at=1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(late)
            assert await commit(world, 5, group="g2") == E.NONE
            await trio.sleep(1)
            assert at_source(world) is None
            assert await propose(world, UnfenceGroups(1, "")) is True
        assert codes == [E.NONE]
        found = at_source(world)
        assert found is not None
        assert found.offset == 5


async def test_a_fence_that_stands_for_long_is_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence_ages, "GROUPS", fence_ages.Patience(60.0, 60.0))
    async with mirroring() as world:
        await linked(world)
        assert await propose(world, FenceGroups("src", ("g1",))) == 1
        await becomes(lambda: not state(world).link_groups.fences[1].awaited)
        assert await commit(world, 5) == E.COORDINATOR_LOAD_IN_PROGRESS
        assert await fetch(world) == -E.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_fence_whose_command_is_gone_is_lifted(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await propose(world, FenceGroups("src", ("g1",))) == 1
        await becomes(lambda: not state(world).link_groups.fences)
        assert await commit(world, 6) == E.NONE


async def moved(world: World, group: str = "g1") -> Moved:
    running = world.gateways[0].gateway.links.running["src"]
    assert running.group_lines is not None
    coordinator = world.gateways[0].gateway.coordinator
    return await GroupMove(coordinator, "src", running.group_lines.cluster).move(group)


async def test_an_empty_group_moves_with_its_offsets(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await commit(world, 5) == E.NONE
        assert await moved(world) == Moved("g1", 1, "", 0)
        for at in (0, 1):
            assert await fetch(world, at=at) == 5
        assert await commit(world, 8) == E.NONE
        assert at_source(world) == CommittedOffset(5, -1, "note")
        assert await fetch(world) == 8
