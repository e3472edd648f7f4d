"""Metadata, DescribeTopicPartitions, DescribeCluster: the cluster as clients see it."""

import pytest

from tests.worlds.admin_world import admin_world
from tidegate_coordination.events.cluster import Endpoint, GatewayExpired, GatewayRegistered
from tidegate_coordination.rules.gateways import StartDraining
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.zones.cluster_view import ClusterView
from tidegate_gateway.zones.zone_finder import ZoneFinder
from tidegate_gateway.zones.zone_settings import zone_maps
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidegate_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidegate_protocol.messages.describe_cluster import DescribeClusterRequest
from tidegate_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from tidegate_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

NOT_ASKED = -(2**31)


def by_name(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics, allow_auto_topic_creation=create)


@pytest.mark.parametrize("version", range(14))
async def test_every_version_names_brokers_and_topics(version: int) -> None:
    async with admin_world({"broker.rack": "az1"}, {}) as [one, two]:
        await one.create("t", 3, 2)
        answer = await two.ask(by_name("t", create=True), version)

    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
        (1, "h1", 9092),
        (2, "h2", 9092),
    ]
    assert [each.rack for each in answer.brokers] == (["az1", None] if version else [None, None])
    assert answer.controller_id == (1 if version else -1)
    assert answer.cluster_id == ("cluster" if version >= 2 else None)
    [topic] = answer.topics
    assert (topic.error_code, topic.name) == (0, "t")
    for partition in topic.partitions:
        assert partition.error_code == 0
        assert partition.replica_nodes == partition.isr_nodes
        assert sorted(partition.replica_nodes) == [1, 2]
        assert partition.leader_id == partition.replica_nodes[0]
        assert partition.leader_epoch == (0 if version >= 7 else -1)


async def test_empty_and_null_lists() -> None:
    async with admin_world() as [gateway]:
        await gateway.create("a")
        await gateway.create("b")
        for version, request, names in [
            (0, MetadataRequest([]), ["a", "b"]),
            (1, MetadataRequest([]), []),
            (1, MetadataRequest(None), ["a", "b"]),
            (13, MetadataRequest([]), []),
            (13, MetadataRequest(None), ["a", "b"]),
        ]:
            answer = await gateway.ask(request, version)
            assert [each.name for each in answer.topics] == names


async def test_a_topic_created_elsewhere_is_known_at_once() -> None:
    async with admin_world({}, {}) as [one, two]:
        created = await one.create("t")
        answer = await two.ask(by_name("t"))
        assert [each.topic_id for each in answer.topics] == [created.topic_id]

        await one.create("u")
        request = MetadataRequest([MetadataRequestTopic((await one.create("v")).topic_id, None)])
        answer = await two.ask(request)
        assert [(each.error_code, each.name) for each in answer.topics] == [(0, "v")]


async def test_unknown_names_and_ids() -> None:
    async with admin_world() as [gateway]:
        await gateway.create("a.b")
        asked = [
            MetadataRequestTopic(name="nope"),
            MetadataRequestTopic(name="a b"),
            MetadataRequestTopic(name="a_b"),
            MetadataRequestTopic(b"?" * 16, None),
        ]
        answer = await gateway.ask(MetadataRequest(asked, allow_auto_topic_creation=True))
        assert [each.error_code for each in answer.topics] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        assert answer.topics[3].name is None
        assert answer.topics[3].topic_id == b"?" * 16

        old = await gateway.ask(MetadataRequest([MetadataRequestTopic(b"?" * 16, "x")]), 10)
        assert old.topics[0].error_code == ErrorCode.INVALID_REQUEST
        assert "x" not in gateway.state.topics.by_name


@pytest.mark.parametrize(
    ("setting", "asked", "is_created"),
    [("true", True, True), ("true", False, False), ("false", True, False)],
)
async def test_auto_creation_needs_both(setting: str, asked: bool, is_created: bool) -> None:
    settings = {
        "auto.create.topics.enable": setting,
        "num.partitions": "4",
        "default.replication.factor": "3",
    }
    async with admin_world(settings) as [gateway]:
        answer = await gateway.ask(by_name("t", "t", create=asked))
        expected = 0 if is_created else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [each.error_code for each in answer.topics] == [expected]  # once, as in Kafka
        if is_created:
            topic = gateway.state.topics.by_name["t"]
            assert (len(topic.partition_numbers), topic.replication_factor) == (4, 3)
            assert [len(each.partitions) for each in answer.topics] == [4]


async def test_versions_before_4_always_create() -> None:
    async with admin_world() as [gateway]:
        answer = await gateway.ask(by_name("t", create=True), 3)
        assert [each.error_code for each in answer.topics] == [0]


async def test_authorized_operations_only_when_asked() -> None:
    async with admin_world() as [gateway]:
        await gateway.create("t")
        plain = await gateway.ask(by_name("t"), 8)
        request = by_name("t")
        request.include_cluster_authorized_operations = True
        request.include_topic_authorized_operations = True
        asked = await gateway.ask(request, 8)
        again = await gateway.ask(by_name("t"), 8)

    for each in (plain, again):
        assert each.cluster_authorized_operations == NOT_ASKED
        assert each.topics[0].topic_authorized_operations == NOT_ASKED
    # CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE
    bits = {5, 7, 8, 9, 10, 11, 12}
    assert asked.cluster_authorized_operations == sum(1 << bit for bit in bits)
    # READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS
    bits = {3, 4, 5, 6, 7, 8, 10, 11}
    assert asked.topics[0].topic_authorized_operations == sum(1 << bit for bit in bits)


async def test_answers_follow_topics_and_gateways() -> None:
    async with admin_world({}, {}) as [one, two]:
        first = (await one.create("t", 8, 2)).topic_id
        answer = await one.ask(by_name("t"))
        assert {each.leader_id for each in answer.topics[0].partitions} == {1, 2}

        grow = CreatePartitionsRequest([CreatePartitionsTopic("t", 9, None)])
        assert (await one.ask(grow)).results[0].error_code == 0
        assert len((await one.ask(by_name("t"))).topics[0].partitions) == 9

        await two.coordinator.propose(StartDraining(two.coordinator.incarnation))
        await one.coordinator.catch_up()
        answer = await one.ask(by_name("t"))
        assert [each.node_id for each in answer.brokers] == [1]
        assert all(each.replica_nodes == [1] for each in answer.topics[0].partitions)

        await one.ask(DeleteTopicsRequest([DeleteTopicState(name="t")]))
        second = (await one.create("t")).topic_id
        answer = await one.ask(by_name("t"))
        assert answer.topics[0].topic_id == second != first
        assert len(answer.topics[0].partitions) == 1


async def test_only_gateways_with_the_clients_listener_are_shown() -> None:
    async with admin_world() as [gateway]:
        await gateway.create("t")
        answer = await gateway.ask(by_name("t"), listener="OTHER")
        cluster = await gateway.ask(DescribeClusterRequest(), listener="OTHER")

    assert (answer.brokers, answer.controller_id) == ([], -1)
    [partition] = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert cluster.brokers == []


def test_a_gateway_that_left_is_gone() -> None:
    state = ClusterState()
    for number in (1, 2):
        endpoints = (Endpoint("A", f"h{number}", 1),)
        state.gateways.fold_registered(
            GatewayRegistered(number, number, f"k{number}", "", endpoints, "0", 0), 0
        )
    view = ClusterView(state, ZoneFinder(zone_maps(BrokerSettings()), state.gateways))
    before = view.of("A")
    assert view.of("A") is before
    state.gateways.fold_expired(GatewayExpired(1))
    assert [each.node_id for each in view.of("A").nodes] == [2]
    assert (view.of("A").controller_id, view.of("A").leaders) == (2, (2,))


async def test_a_thousand_partitions_are_made_once_for_concurrent_requests() -> None:
    async with admin_world({}, {}) as [one, _]:
        for number in range(10):
            await one.create(f"t{number}", 100, 2)
        first = await one.handle(MetadataRequest(None))
        again = await one.handle(MetadataRequest(None))
    assert sum(len(each.partitions) for each in again.topics) == 1000
    assert all(each is made for each, made in zip(again.topics, first.topics, strict=True))


def names_and_counts(answer: object) -> list[tuple[str, int, list[int]]]:
    return [
        (each.name, each.error_code, [row.partition_index for row in each.partitions])
        for each in answer.topics  # type: ignore[attr-defined]
    ]


async def test_topic_partitions_come_in_pages_sorted_by_name() -> None:
    async with admin_world() as [gateway]:
        for name, partitions in [("c", 1), ("a", 3), ("b", 2)]:
            await gateway.create(name, partitions)
        request = DescribeTopicPartitionsRequest([], 2)
        pages = []
        while True:
            answer = await gateway.ask(request)
            pages.append(names_and_counts(answer))
            if answer.next_cursor is None:
                break
            cursor = answer.next_cursor
            request.cursor = DescribeTopicPartitionsRequestCursor(
                cursor.topic_name, cursor.partition_index
            )

    assert pages == [
        [("a", 0, [0, 1])],
        [("a", 0, [2]), ("b", 0, [0])],
        [("b", 0, [1]), ("c", 0, [0])],
    ]


async def test_topic_partitions_by_name() -> None:
    async with admin_world({"max.request.partition.size.limit": "2"}, {}) as [one, two]:
        await two.create("b", 3)
        asked = [TopicRequest(name) for name in ("nope", "b", "a b", "b")]
        answer = await one.ask(DescribeTopicPartitionsRequest(asked, 2000))

    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert names_and_counts(answer) == [("a b", invalid, []), ("b", 0, [0, 1])]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("b", 2)
    [row, _] = answer.topics[1].partitions
    assert (row.eligible_leader_replicas, row.last_known_elr) == ([], [])
    assert row.replica_nodes == row.isr_nodes == [row.leader_id]


async def test_an_unknown_topic_has_no_partitions() -> None:
    async with admin_world() as [gateway]:
        answer = await gateway.ask(DescribeTopicPartitionsRequest([TopicRequest("nope")], 10))
    assert names_and_counts(answer) == [("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])]


@pytest.mark.parametrize(("topic", "partition"), [("other", 0), ("a", -1)])
async def test_a_cursor_must_make_sense(topic: str, partition: int) -> None:
    async with admin_world() as [gateway]:
        await gateway.create("a")
        cursor = DescribeTopicPartitionsRequestCursor(topic, partition)
        answer = await gateway.ask(DescribeTopicPartitionsRequest([TopicRequest("a")], 10, cursor))
        assert names_and_counts(answer) == [("a", ErrorCode.INVALID_REQUEST, [])]


async def test_a_cursor_behind_the_end_gives_no_partitions() -> None:
    async with admin_world() as [gateway]:
        await gateway.create("a")
        cursor = DescribeTopicPartitionsRequestCursor("a", 7)
        answer = await gateway.ask(DescribeTopicPartitionsRequest([], 10, cursor))
        assert names_and_counts(answer) == [("a", 0, [])]
        assert answer.next_cursor is None


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described(version: int) -> None:
    async with admin_world({}, {"broker.rack": "az2"}) as [one, _]:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = await one.ask(request, version)
        plain = await one.ask(DescribeClusterRequest(), version)

    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "cluster", 1)
    rows = [(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers]
    assert rows == [(1, "h1", 9092, None), (2, "h2", 9092, "az2")]
    assert answer.cluster_authorized_operations == 0b1111110100000
    assert plain.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_controllers_cannot_be_described(endpoint_type: int, code: ErrorCode) -> None:
    async with admin_world() as [gateway]:
        answer = await gateway.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
        assert (answer.error_code, answer.brokers) == (code, [])
        assert answer.error_message
