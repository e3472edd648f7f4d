"""Calls that move replicas and leaders, and calls about the quorum: their answers on the wire."""

from typing import Any

import pytest

from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_gateway.requests.topics.describe_log_dirs import LOG_DIR
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidegate_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidegate_protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tidegate_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidegate_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tidegate_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

PREFERRED = 0
UNCLEAN = 1
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def elected(answer: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        row.topic: [(each.partition_id, each.error_code) for each in row.partition_result]
        for row in answer.replica_election_results
    }


@pytest.mark.parametrize(
    ("version", "kind"), [(0, PREFERRED), (1, PREFERRED), (1, UNCLEAN), (2, PREFERRED)]
)
async def test_no_election_is_needed(version: int, kind: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("a", 2)
        topics = [TopicPartitions("a", [1, 0, 2, -1]), TopicPartitions("nope", [0])]
        answer = await two.ask(ElectLeadersRequest(kind, topics), version)

    not_needed = ErrorCode.ELECTION_NOT_NEEDED
    assert answer.error_code == 0
    assert elected(answer) == {
        "a": [(1, not_needed), (0, not_needed), (2, UNKNOWN), (-1, UNKNOWN)],
        "nope": [(0, UNKNOWN)],
    }
    assert all(each.partition_result[0].error_message for each in answer.replica_election_results)


@pytest.mark.parametrize("version", range(3))
async def test_an_election_everywhere_has_nothing_to_do(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("a", 2)
        answer = await two.ask(ElectLeadersRequest(PREFERRED, None), version)
    assert (answer.error_code, elected(answer)) == (0, {"a": []})


@pytest.mark.parametrize("topics", [None, [TopicPartitions("a", [0])]])
async def test_an_unknown_kind_of_election(topics: list[TopicPartitions] | None) -> None:
    async with admin_world() as [gateway]:
        await gateway.create("a")
        answer = await gateway.ask(ElectLeadersRequest(2, topics))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert elected(answer) == ({"a": [(0, ErrorCode.INVALID_REQUEST)]} if topics else {})


async def replicas(gateway: AdminGateway, name: str) -> list[list[int]]:
    answer = await gateway.ask(MetadataRequest([MetadataRequestTopic(name=name)]))
    return [each.replica_nodes for each in answer.topics[0].partitions]


async def reassign(gateway: AdminGateway, version: int, *rows: tuple[int, list[int] | None]) -> Any:
    topic = ReassignableTopic("a", [ReassignablePartition(*each) for each in rows])
    other = ReassignableTopic("nope", [ReassignablePartition(0, [1])])
    answer = await gateway.ask(AlterPartitionReassignmentsRequest(topics=[topic, other]), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    [first, second] = answer.responses
    assert (first.name, second.name) == ("a", "nope")
    assert [each.error_code for each in second.partitions] == [UNKNOWN]
    assert [each.partition_index for each in first.partitions] == [each[0] for each in rows]
    return first.partitions


@pytest.mark.parametrize("version", range(2))
async def test_reassignments_are_checked_and_move_nothing(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("a", 2, 2)
        await two.coordinator.catch_up()
        before = await replicas(two, "a")
        same = await reassign(two, version, (0, before[0]), (1, before[1]))
        moves = await reassign(
            two, version, (0, before[0][::-1]), (1, [1]), (0, [2]), (1, before[1][::-1])
        )
        bad = await reassign(
            two, version, (0, []), (0, [1, 1]), (1, [-1]), (1, [1, 9]), (2, [1]), (-1, [1])
        )
        after = await replicas(two, "a")

    wrong = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert [len(each) for each in before] == [2, 2]
    assert [(each.error_code, each.error_message) for each in same] == [(0, None)] * 2
    assert [each.error_code for each in moves] == [wrong] * 4
    assert all("tidegate gateway drain" in each.error_message for each in moves)
    assert str(before[0]) in moves[0].error_message
    assert [each.error_code for each in bad] == [wrong] * 4 + [UNKNOWN] * 2
    for each, text in zip(bad, ["empty", "more than once", "broker -1", "broker 9"], strict=False):
        assert text in each.error_message
    assert before == after


@pytest.mark.parametrize("version", range(2))
async def test_there_is_no_reassignment_to_cancel(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("a", 1)
        rows = await reassign(two, version, (0, None), (1, None))
    assert [each.error_code for each in rows] == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN]


async def test_a_client_can_forbid_another_replication_factor() -> None:
    async with admin_world({}, {}) as [one, _]:
        await one.create("a", 1, 2)
        [shown] = await replicas(one, "a")
        topic = ReassignableTopic(
            "a", [ReassignablePartition(0, shown), ReassignablePartition(0, [2])]
        )
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=False, topics=[topic]
        )
        answer = await one.ask(request)
    assert not answer.allow_replication_factor_change
    codes = [each.error_code for each in answer.responses[0].partitions]
    assert codes == [0, ErrorCode.INVALID_REPLICATION_FACTOR]


@pytest.mark.parametrize(
    "topics", [None, [ListPartitionReassignmentsTopics(name, [0]) for name in ("a", "nope")]]
)
async def test_no_reassignment_is_ever_in_progress(
    topics: list[ListPartitionReassignmentsTopics] | None,
) -> None:
    async with admin_world({}, {}) as [one, _]:
        await one.create("a", 1)
        await reassign(one, 1, (0, [2]))
        answer = await one.ask(ListPartitionReassignmentsRequest(topics=topics))
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


@pytest.mark.parametrize("version", range(1, 3))
async def test_all_partitions_are_in_the_one_directory(version: int) -> None:
    def topic(name: str, *indexes: int) -> AlterReplicaLogDirTopic:
        return AlterReplicaLogDirTopic(name, list(indexes))

    async with admin_world({}, {}) as [one, two]:
        await one.create("a", 4)
        dirs = [
            AlterReplicaLogDir("/elsewhere", [topic("a", 0, 1), topic("nope", 1)]),
            AlterReplicaLogDir(LOG_DIR, [topic("a", 1, 2, 3, 4, -1), topic("nope", 0)]),
        ]
        answer = await two.ask(AlterReplicaLogDirsRequest(dirs), version)

    rows = {
        row.topic_name: [(each.partition_index, each.error_code) for each in row.partitions]
        for row in answer.results
    }
    assert len(answer.results) == 2
    elsewhere = ErrorCode.LOG_DIR_NOT_FOUND
    assert rows == {
        "a": [(0, elsewhere), (1, 0), (2, 0), (3, 0), (4, UNKNOWN), (-1, UNKNOWN)],
        "nope": [(1, elsewhere), (0, UNKNOWN)],
    }


def quorum_of(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        [
            DescribeQuorumRequestTopicData(
                name, [DescribeQuorumRequestPartitionData(index) for index in indexes]
            )
            for name, indexes in topics
        ]
    )


@pytest.mark.parametrize("version", range(3))
async def test_the_metadata_log_is_shown_as_a_quorum(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("a")
        answer = await two.ask(quorum_of(("__cluster_metadata", [0])), version)
        end = one.state.position

    assert answer.error_code == 0
    [topic] = answer.topics
    [log] = topic.partitions
    assert (topic.topic_name, log.partition_index, log.error_code) == ("__cluster_metadata", 0, 0)
    assert (log.leader_id, log.leader_epoch, log.high_watermark) == (1, 0, end)
    voters = [(each.replica_id, each.log_end_offset) for each in log.current_voters]
    assert voters == [(1, end), (2, end)]
    assert {each.last_caught_up_timestamp for each in log.current_voters} == {-1}
    assert log.observers == []
    nodes = [
        (node.node_id, [(each.name, each.host, each.port) for each in node.listeners])
        for node in answer.nodes
    ]
    shown = [(1, [("A", "h1", 9092)]), (2, [("A", "h2", 9092)])]
    assert nodes == (shown if version >= 2 else [])


@pytest.mark.parametrize(
    "topics",
    [
        [("a", [0])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [0]), ("a", [0])],
    ],
)
async def test_no_other_log_has_a_quorum(topics: list[tuple[str, list[int]]]) -> None:
    async with admin_world() as [gateway]:
        await gateway.create("a")
        answer = await gateway.ask(quorum_of(*topics))

    rows = [
        (topic.topic_name, [each.partition_index for each in topic.partitions])
        for topic in answer.topics
    ]
    codes = {each.error_code for topic in answer.topics for each in topic.partitions}
    assert (answer.error_code, rows, codes) == (0, topics, {UNKNOWN})
