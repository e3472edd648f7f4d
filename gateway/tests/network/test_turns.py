"""While a long answer is made, other tasks have their turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import NOW_MS, WireWorld, wire_world
from tidegate_coordination.events.cluster import GatewayRegistered, TopicCreated, TopicDeleted
from tidegate_coordination.events.groups import CommittedOffset, GroupDeleted, OffsetsCommitted
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.migration.mirror.linked_names import LinkedNames
from tidegate_gateway.network.call import Call, Handler, Peer
from tidegate_gateway.network.turns import ROWS_AT_ONCE
from tidegate_gateway.requests.cluster.metadata import MetadataHandler
from tidegate_gateway.requests.groups.describe_groups import DescribeGroups
from tidegate_gateway.requests.groups.find_coordinator import FindCoordinator
from tidegate_gateway.requests.groups.list_groups import ListGroups
from tidegate_gateway.requests.groups.offset_fetch import OffsetFetch
from tidegate_gateway.requests.topics.describe_log_dirs import DescribeLogDirsHandler
from tidegate_gateway.requests.topics.describe_topic_partitions import (
    DescribeTopicPartitionsHandler,
)
from tidegate_gateway.topics.internal_topics import InternalTopics
from tidegate_protocol.messages import describe_groups as dg
from tidegate_protocol.messages import describe_log_dirs as ld
from tidegate_protocol.messages import describe_topic_partitions as dp
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import list_groups as lg
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_fetch as of

FEW, MANY = 10, 20 * ROWS_AT_ONCE
PATIENCE_TURNS = 10_000
PEER = Peer("127.0.0.1", 5000, "PLAINTEXT")


@pytest.fixture
async def world(autojump_clock: MockClock) -> AsyncIterator[WireWorld]:
    async with wire_world() as made:
        yield made


def ids(count: int) -> list[str]:
    return [f"x{each}" for each in range(count)]


def handlers(gateway: Gateway) -> Iterator[Handler]:
    def new_id() -> bytes:
        return b"i" * 16

    both = gateway.coordinator, gateway.settings
    topics = InternalTopics(*both, new_id)
    yield FindCoordinator(gateway.coordinator, topics, gateway.groups, gateway.view.cluster_view)
    yield DescribeGroups(gateway.groups, gateway.forwarding.group_forwards)
    yield ListGroups(gateway.coordinator, gateway.groups, gateway.forwarding.group_forwards)
    yield OffsetFetch(gateway.coordinator, gateway.forwarding.group_forwards)
    yield DescribeTopicPartitionsHandler(*both, gateway.view.cluster_view)
    yield DescribeLogDirsHandler(gateway.coordinator, gateway.view.cluster_view, 1)
    yield MetadataHandler(
        *both, gateway.view.cluster_view, new_id, LinkedNames(gateway.coordinator.state.links)
    )


async def asked(
    world: WireWorld, request: Any, version: int, meanwhile: Callable[[int], None] = lambda _: None
) -> tuple[int, Any]:
    """Return how often another task ran before the answer, and the answer."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1
            assert turns < PATIENCE_TURNS
            meanwhile(turns)

    [handler] = [each for each in handlers(world.gateway) if _takes(each, request)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        answer = await handler.handle(Call(version, "client", PEER), request)
        nursery.cancel_scope.cancel()
    return turns, answer


def _takes(handler: Handler, request: Any) -> bool:
    return handler.messages.__name__ == type(request).__module__


def groups_to_fetch(count: int) -> of.OffsetFetchRequest:
    asked = [of.OffsetFetchRequestGroup(group_id=each, topics=None) for each in ids(count)]
    return of.OffsetFetchRequest(groups=asked)


def topics_to_fetch(count: int, *partitions: int) -> of.OffsetFetchRequest:
    topics = [of.OffsetFetchRequestTopics(each, bytes(16), [*partitions]) for each in ids(count)]
    return of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup("g", topics=topics)])


def metadata_by_id(count: int) -> md.MetadataRequest:
    topics = [md.MetadataRequestTopic(each.encode().rjust(16), None) for each in ids(count)]
    return md.MetadataRequest(topics, allow_auto_topic_creation=False)


LONG: list[tuple[int, Callable[[int], Any]]] = [
    (6, lambda count: fc.FindCoordinatorRequest(coordinator_keys=ids(count))),
    (6, lambda count: dg.DescribeGroupsRequest(ids(count))),
    (9, groups_to_fetch),
    (9, topics_to_fetch),
    (9, lambda count: topics_to_fetch(1, *range(count))),
    (0, lambda count: dp.DescribeTopicPartitionsRequest([dp.TopicRequest(e) for e in ids(count)])),
    (12, metadata_by_id),
]


@pytest.mark.parametrize(("version", "of_rows"), LONG, ids=range(len(LONG)))
async def test_other_tasks_run_after_every_thousand_rows(
    version: int, of_rows: Callable[[int], Any], world: WireWorld
) -> None:
    await asked(world, of_rows(1), version)  # makes __consumer_offsets
    few, _ = await asked(world, of_rows(FEW), version)
    many, _ = await asked(world, of_rows(MANY), version)
    # trio runs tasks in random order, so the other task does not run in each turn.
    assert many - few >= MANY // ROWS_AT_ONCE // 2


async def commit_many(world: WireWorld) -> dict[str, bytes]:
    topic_ids = {each: await world.create_topic(each, 1) for each in ("a", "b", "c")}
    offsets = tuple(
        CommittedOffset(topic_id, partition, partition, -1, "", NOW_MS)
        for topic_id in topic_ids.values()
        for partition in range(ROWS_AT_ONCE + 1)
    )
    groups = world.gateway.coordinator.state.groups
    groups.fold_offsets_committed(OffsetsCommitted("g", 0, offsets), NOW_MS)
    return topic_ids


def offsets_of(answer: Any) -> dict[str, int]:
    [group] = answer.groups
    return {
        each.name: sum(part.committed_offset >= 0 for part in each.partitions)
        for each in group.topics
    }


@pytest.mark.parametrize("turn", range(1, 5))
async def test_a_group_may_be_deleted_while_its_offsets_are_answered(
    turn: int, world: WireWorld
) -> None:
    await commit_many(world)
    groups = world.gateway.coordinator.state.groups

    def delete(now: int) -> None:
        if now == turn:
            groups.fold_group_deleted(GroupDeleted("g"), NOW_MS)

    request = of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup("g", topics=None)])
    _, answer = await asked(world, request, 9, delete)
    told = offsets_of(answer)
    assert list(told) == ["a", "b", "c"][: len(told)]
    assert set(told.values()) <= {ROWS_AT_ONCE + 1}


@pytest.mark.parametrize("turn", range(1, 5))
async def test_a_topic_may_be_deleted_while_its_offsets_are_answered(
    turn: int, world: WireWorld
) -> None:
    topic_ids = await commit_many(world)
    state = world.gateway.coordinator.state

    def delete(now: int) -> None:
        if now == turn:
            state.topics.fold_deleted(TopicDeleted(topic_ids["b"]))
            state.groups.drop_topic(topic_ids["b"])

    indexes = list(range(ROWS_AT_ONCE + 1))
    topics = [of.OffsetFetchRequestTopics(each, partition_indexes=indexes) for each in "abc"]
    request = of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup("g", topics=topics)])
    _, answer = await asked(world, request, 9, delete)
    told = offsets_of(answer)
    assert (told["a"], told["c"]) == (len(indexes), len(indexes))
    assert told["b"] <= len(indexes)


ALL_TOPICS: list[tuple[int, Any]] = [
    (12, md.MetadataRequest(None, allow_auto_topic_creation=False)),
    (4, ld.DescribeLogDirsRequest(None)),
]


@pytest.mark.parametrize(("version", "request_"), ALL_TOPICS, ids=["Metadata", "DescribeLogDirs"])
async def test_other_tasks_run_while_all_topics_are_placed(
    version: int, request_: Any, world: WireWorld
) -> None:
    few, _ = await asked(world, request_, version)
    for number in range(20):
        await world.create_topic(f"t{number}", 150)
    many, answer = await asked(world, request_, version)
    assert ROWS_AT_ONCE < 150  # so that each topic is a turn
    # The other task starts in the first turn.  In the last turn it runs before or after the answer,
    # by chance.
    assert many - few >= 20 - 2
    topics = answer.topics if version == 12 else answer.results[0].topics
    assert [len(each.partitions) for each in topics] == [150] * 20


@pytest.mark.parametrize(("version", "request_"), ALL_TOPICS, ids=["Metadata", "DescribeLogDirs"])
async def test_topics_may_come_and_go_while_all_are_placed(
    version: int, request_: Any, world: WireWorld
) -> None:
    topic_ids = [await world.create_topic(f"t{number}", 300) for number in range(20)]
    state = world.gateway.coordinator.state

    def change(now: int) -> None:
        if now == 1:
            state.topics.fold_deleted(TopicDeleted(topic_ids[-1]))
        state.topics.fold_created(TopicCreated(now.to_bytes(16, "big"), f"new{now}", 1, 1, {}), [0])

    _, answer = await asked(world, request_, version, change)
    topics = answer.topics if version == 12 else answer.results[0].topics
    assert [each.name for each in topics] == [f"t{number}" for number in range(19)]


async def test_a_topic_deleted_during_a_request_for_all_topics_is_left_out(
    world: WireWorld,
) -> None:
    topic_ids = [await world.create_topic(f"t{number:02}", 300) for number in range(20)]
    limit = {"max.request.partition.size.limit": "10000"}
    world.gateway.settings = replace(world.gateway.settings, static=limit)

    def delete(now: int) -> None:
        if now == 1:
            world.gateway.coordinator.state.topics.fold_deleted(TopicDeleted(topic_ids[-1]))

    request = dp.DescribeTopicPartitionsRequest(response_partition_limit=10_000)
    _, answer = await asked(world, request, 0, delete)
    told = [(each.name, each.error_code) for each in answer.topics]
    assert told == [(f"t{number:02}", 0) for number in range(19)]


async def test_other_tasks_run_while_all_groups_are_listed(world: WireWorld) -> None:
    few, _ = await asked(world, lg.ListGroupsRequest(), 5)
    groups = world.gateway.coordinator.state.groups
    topic_id = await world.create_topic("a", 1)
    offsets = (CommittedOffset(topic_id, 0, 0, -1, "", NOW_MS),)
    count = 10 * ROWS_AT_ONCE
    for each in ids(count):
        groups.fold_offsets_committed(OffsetsCommitted(each, 0, offsets), NOW_MS)

    def delete(now: int) -> None:
        if now == 1:
            groups.fold_group_deleted(GroupDeleted(f"x{count - 1}"), NOW_MS)

    many, answer = await asked(world, lg.ListGroupsRequest(), 5, delete)
    assert many - few >= 5
    assert sorted(each.group_id for each in answer.groups) == sorted(ids(count - 1))


async def test_groups_go_to_a_gateway_that_came_meanwhile(world: WireWorld) -> None:
    gateways = world.gateway.coordinator.state.gateways
    endpoints = world.gateway.identity.endpoints

    def register(_: int) -> None:
        if len(gateways.live) == 1:
            number = gateways.next_incarnation
            gateways.fold_registered(GatewayRegistered(number, 2, "k2", "", endpoints, "0", 0), 0)

    request = fc.FindCoordinatorRequest(coordinator_keys=ids(MANY))
    _, answer = await asked(world, request, 6, register)
    assert {each.node_id for each in answer.coordinators[ROWS_AT_ONCE:]} == {1, 2}


async def test_metadata_names_no_leader_that_is_not_among_its_brokers(world: WireWorld) -> None:
    topic_ids = [await world.create_topic(f"t{each}", 1) for each in range(20)]
    gateways = world.gateway.coordinator.state.gateways
    endpoints = world.gateway.identity.endpoints

    def register(now: int) -> None:
        number = gateways.next_incarnation
        event = GatewayRegistered(number, now + 1, f"k{now}", "", endpoints, "0", 0)
        gateways.fold_registered(event, 0)

    unknown = metadata_by_id(2 * ROWS_AT_ONCE)
    known = [md.MetadataRequestTopic(each, None) for each in topic_ids]
    assert unknown.topics is not None
    request = md.MetadataRequest([*unknown.topics, *known], allow_auto_topic_creation=False)
    _, answer = await asked(world, request, 12, register)
    leaders = {each.leader_id for topic in answer.topics for each in topic.partitions}
    assert leaders <= {each.node_id for each in answer.brokers}
