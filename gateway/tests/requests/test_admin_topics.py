"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, DescribeLogDirs on the wire."""

from typing import Any

import pytest

from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.records.objects import WalName
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidegate_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidegate_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidegate_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidegate_protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)

ZERO = bytes(16)


async def write(
    gateway: AdminGateway,
    name: str,
    records: int,
    size_bytes: int,
    *,
    counter: int = 1,
    partition: int = 0,
) -> None:
    """Commit one batch to a partition of a topic; counter: a different one for each object."""
    topic_id = gateway.state.topics.by_name[name].topic_id
    batch = BatchFacts(topic_id, partition, 0, size_bytes, records, 1, 0, -1, -1, -1, -1)
    name_of_object = WalName(gateway.coordinator.incarnation, counter)
    outcomes = await gateway.coordinator.propose(CommitWal(name_of_object, size_bytes, [batch]))
    assert [each.refusal for each in outcomes] == [None]


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates(version: int) -> None:
    async with admin_world({"num.partitions": "4"}) as [gateway]:
        configs = [CreatableTopicConfig("retention.ms", "5")]
        topics = [
            CreatableTopic("a", -1, -1, [], configs),
            CreatableTopic("b", -1, -1, [CreatableReplicaAssignment(0, [1])]),
        ]
        answer = await gateway.ask(CreateTopicsRequest(topics), version)
        state = gateway.state.topics

    assert [(each.name, each.error_code) for each in answer.topics] == [("a", 0), ("b", 0)]
    first = answer.topics[0]
    assert len(state.by_name["a"].partition_numbers) == 4
    assert state.by_name["a"].configs == {"retention.ms": "5"}
    assert first.topic_id == (state.by_name["a"].topic_id if version >= 7 else ZERO)
    if version >= 5:
        assert (first.num_partitions, first.replication_factor) == (4, 1)
        shown = {each.name: (each.value, each.config_source) for each in first.configs}
        assert len(shown) == 33
        assert shown["retention.ms"] == ("5", 1)
        assert shown["cleanup.policy"] == ("delete", 5)


REFUSED = [
    (CreatableTopic("t", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."),
    (CreatableTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
    (CreatableTopic("n", 0, 1), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set"),
    (CreatableTopic("n", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must"),
    (CreatableTopic("n", -1, -1, [CreatableReplicaAssignment(0, [9])]),
     ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker is registered"),
    (CreatableTopic("n", 1, 1, [CreatableReplicaAssignment(0, [1])]),
     ErrorCode.INVALID_REQUEST, "replication factor was not set to -1"),
    (CreatableTopic("n", -1, -1, [CreatableReplicaAssignment(0, [1])] * 2),
     ErrorCode.INVALID_REPLICA_ASSIGNMENT, "multiple manual partition assignments"),
    (CreatableTopic("n", 1, -1, [CreatableReplicaAssignment(0, [1])] * 2),
     ErrorCode.INVALID_REQUEST, "numPartitions was not set to -1"),
    (CreatableTopic("n", 1, 1, [], [CreatableTopicConfig("foo", "1")]),
     ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
    (CreatableTopic("n", 20_000, 1), ErrorCode.POLICY_VIOLATION, "Excessively large number"),
]  # fmt: skip


async def test_of_a_config_that_is_named_twice_the_last_value_counts() -> None:
    async with admin_world() as [gateway]:
        configs = [CreatableTopicConfig("retention.ms", value) for value in ("1000", "2000")]
        answer = await gateway.ask(CreateTopicsRequest([CreatableTopic("n", 1, 1, [], configs)]))
        assert answer.topics[0].error_code == ErrorCode.NONE
        assert gateway.state.topics.by_name["n"].configs == {"retention.ms": "2000"}


@pytest.mark.parametrize(("topic", "code", "text"), REFUSED)
async def test_refused_topics(topic: CreatableTopic, code: ErrorCode, text: str) -> None:
    async with admin_world() as [gateway]:
        await gateway.create("t")
        answer = await gateway.ask(CreateTopicsRequest([topic, CreatableTopic("ok", 1, 1)]))
        results = {each.name: each for each in answer.topics}
        assert sorted(gateway.state.topics.by_name) == ["ok", "t"]

    assert results["ok"].error_code == 0
    assert results[topic.name].error_code == code
    assert text in results[topic.name].error_message


async def test_a_name_that_stands_twice_is_refused_once() -> None:
    async with admin_world() as [gateway]:
        topics = [CreatableTopic(name, 1, 1) for name in ("a", "b", "a")]
        answer = await gateway.ask(CreateTopicsRequest(topics))
        assert sorted(gateway.state.topics.by_name) == ["b"]

    rows = [(each.name, each.error_code, each.error_message) for each in answer.topics]
    assert rows == [("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."), ("b", 0, None)]


async def test_validate_only_creates_nothing() -> None:
    async with admin_world() as [gateway]:
        request = CreateTopicsRequest([CreatableTopic("a", 2, 3)], validate_only=True)
        answer = await gateway.ask(request)
        assert not gateway.state.topics.by_name
    [result] = answer.topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 3)


async def test_ten_thousand_partitions_and_thousands_of_topics() -> None:
    async with admin_world() as [gateway]:
        assert (await gateway.create("large", 10_000, 3)).error_code == 0
        configs = [CreatableTopicConfig("cleanup.policy", "compact")]
        topics = [CreatableTopic(f"{n:0>200}", 1, 1, [], configs) for n in range(3000)]
        answer = await gateway.ask(CreateTopicsRequest(topics))
        assert {each.error_code for each in answer.topics} == {0}
        assert len(gateway.state.partitions) == 13_000


@pytest.mark.parametrize("version", range(1, 7))
async def test_every_version_deletes(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        created = await one.create("a")
        if version < 6:
            request = DeleteTopicsRequest(topic_names=["a", "nope"])
        else:
            request = DeleteTopicsRequest(
                [
                    DeleteTopicState(None, created.topic_id),
                    DeleteTopicState("nope"),
                    DeleteTopicState(None, b"?" * 16),
                ]
            )
        answer = await two.ask(request, version)

    codes = [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    if version >= 6:
        codes.append(ErrorCode.UNKNOWN_TOPIC_ID)
        assert [each.name for each in answer.responses] == ["a", "nope", None]
        assert answer.responses[0].topic_id == created.topic_id
    assert [each.error_code for each in answer.responses] == codes
    if version >= 5:
        assert answer.responses[1].error_message.startswith("This server does not host this topic")


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ([DeleteTopicState(None, ZERO)], "Neither topic name nor id were specified."),
        ([DeleteTopicState("a", b"?" * 16)],
         "You may not specify both topic name and topic id."),
        ([DeleteTopicState("a")] * 2, "Duplicate topic name."),
        ([DeleteTopicState(None, b"?" * 16)] * 2, "Duplicate topic id."),
    ],
)  # fmt: skip
async def test_senseless_deletions(topics: list[DeleteTopicState], text: str) -> None:
    async with admin_world() as [gateway]:
        await gateway.create("a")
        answer = await gateway.ask(DeleteTopicsRequest(topics))
        assert "a" in gateway.state.topics.by_name
    rows = [(each.error_code, each.error_message) for each in answer.responses]
    assert rows == [(ErrorCode.INVALID_REQUEST, text)]


async def test_a_topic_that_is_named_and_meant_by_its_id_stays() -> None:
    async with admin_world() as [gateway]:
        kept = await gateway.create("a")
        other = await gateway.create("b")
        keys = [("a", ZERO), (None, other.topic_id), (None, kept.topic_id)]
        asked = [DeleteTopicState(*each) for each in keys]
        answer = await gateway.ask(DeleteTopicsRequest(asked))
        assert list(gateway.state.topics.by_name) == ["a"]
    assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
        ("a", kept.topic_id, ErrorCode.INVALID_REQUEST),
        ("b", other.topic_id, 0),
    ]
    assert answer.responses[0].error_message == (
        "The provided topic name maps to an ID that was already supplied."
    )


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)],
)
async def test_deletion_can_be_disabled(version: int, code: ErrorCode) -> None:
    async with admin_world({"delete.topic.enable": "false"}) as [gateway]:
        await gateway.create("a")
        answer = await gateway.ask(DeleteTopicsRequest(topic_names=["a"]), version)
        assert "a" in gateway.state.topics.by_name
    assert answer.responses[0].error_code == code
    if version >= 5:
        assert answer.responses[0].error_message == "Topic deletion is disabled."


@pytest.mark.parametrize("version", range(4))
async def test_every_version_adds_partitions(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("a", 3)
        topics = [
            CreatePartitionsTopic("a", 5, [CreatePartitionsAssignment([1])] * 2),
            CreatePartitionsTopic("nope", 5, None),
            CreatePartitionsTopic("b", 2, None),
            CreatePartitionsTopic("b", 2, None),
        ]
        answer = await two.ask(CreatePartitionsRequest(topics), version)
        again = await two.ask(CreatePartitionsRequest([CreatePartitionsTopic("a", 2, None)]))
        assert len(two.state.topics.by_name["a"].partition_numbers) == 5

    assert {each.name: each.error_code for each in answer.results} == {
        "a": 0,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "b": ErrorCode.INVALID_REQUEST,
    }
    [row] = again.results
    assert row.error_code == ErrorCode.INVALID_PARTITIONS
    assert row.error_message == (
        "The topic a currently has 5 partition(s); 2 would not be an increase."
    )


def deletion(*rows: tuple[str, int, int]) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        [
            DeleteRecordsTopic(name, [DeleteRecordsPartition(index, offset)])
            for name, index, offset in rows
        ]
    )


@pytest.mark.parametrize("version", range(3))
async def test_every_version_deletes_records(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("a", 2)
        await one.create("c", 1, cleanup_policy="compact")
        await one.create("__consumer_offsets", 1)
        await write(one, "a", records=10, size_bytes=100)
        request = deletion(
            ("a", 0, 4),
            ("a", 0, 11),
            ("a", 1, -1),
            ("__consumer_offsets", 0, 0),
            ("__consumer_offsets", 1, 0),
            ("a", 2, 0),
            ("c", 0, -1),
            ("nope", 0, 0),
        )
        answer = await two.ask(request, version)
        rest = await two.ask(deletion(("a", 0, -1)), version)

    rows = [row for topic in answer.topics for row in topic.partitions]
    assert [(each.low_watermark, each.error_code) for each in rows] == [
        (4, 0),
        (-1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, 0),
        (-1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.POLICY_VIOLATION),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert rest.topics[0].partitions[0].low_watermark == 10


def sizes(answer: Any) -> dict[tuple[str, int], int]:
    [log_dir] = answer.results
    assert (log_dir.error_code, log_dir.total_bytes, log_dir.usable_bytes) == (0, -1, -1)
    return {
        (topic.name, row.partition_index): row.partition_size
        for topic in log_dir.topics
        for row in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_version_tells_sizes(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await one.create("a", 8)
        await write(one, "a", records=1, size_bytes=70)
        await two.coordinator.catch_up()
        everything = DescribeLogDirsRequest(None)
        first = sizes(await one.ask(everything, version))
        second = sizes(await two.ask(everything, version))
        asked = DescribeLogDirsRequest(
            [DescribableLogDirTopic("a", [0, 9, -1]), DescribableLogDirTopic("nope", [0])]
        )
        some = sizes(await one.ask(asked, version)) | sizes(await two.ask(asked, version))

    assert not first.keys() & second.keys()
    assert first | second == {("a", index): 70 if index == 0 else 0 for index in range(8)}
    assert some == {("a", 0): 70}
