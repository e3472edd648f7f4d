"""The most expensive requests that a client without rights can send, at default settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from dear_requests.batches import batches, bomb, headers, of_many_producers, zeros
from dear_requests.shapes import (
    BATCHES,
    BLOB,
    COUNT,
    FETCHED,
    GROUP,
    HALF,
    TIME_MS,
    TOO_MANY,
    WIDE,
    WIDE_PARTITIONS,
    many,
    names,
    of,
)
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.compression import Codec
from tidegate_protocol.messages import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
)


class Dear(NamedTuple):
    """A request, or several of one connection."""

    name: str
    key: ApiKey
    version: int
    body: Callable[[], bytes]


def _metadata(prefix: str, count: int, *, may_create: bool) -> bytes:
    topics = [metadata.MetadataRequestTopic(name=each) for each in names(prefix, count)]
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
    return of(metadata, 9, request)


def _offset_fetch(topics: list[tuple[str, list[int]]] | None) -> bytes:
    asked = None
    if topics is not None:
        asked = [
            offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=each)
            for name, each in topics
        ]
    group = offset_fetch.OffsetFetchRequestGroup(GROUP, topics=asked)
    return of(offset_fetch, 8, offset_fetch.OffsetFetchRequest(groups=[group]))


def commit(count: int, first: int = 0) -> bytes:
    """Return an OffsetCommit for GROUP with partitions of the wide topic, repeated."""
    partitions = [
        offset_commit.OffsetCommitRequestPartition((first + each) % WIDE_PARTITIONS, 1)
        for each in range(count)
    ]
    topic = offset_commit.OffsetCommitRequestTopic(name=WIDE, partitions=partitions)
    return of(offset_commit, 8, offset_commit.OffsetCommitRequest(GROUP, topics=[topic]))


def _list_offsets() -> bytes:
    partitions = [
        list_offsets.ListOffsetsPartition(each % WIDE_PARTITIONS, timestamp=-1)
        for each in range(COUNT)
    ]
    topic = list_offsets.ListOffsetsTopic(WIDE, partitions)
    return of(list_offsets, 7, list_offsets.ListOffsetsRequest(topics=[topic]))


def create(name: Iterator[str] | list[str], partitions: int) -> bytes:
    """Return a request for topics."""
    topics = [create_topics.CreatableTopic(each, partitions, 1) for each in name]
    return of(create_topics, 7, create_topics.CreateTopicsRequest(topics, 60_000))


def _delete() -> bytes:
    topics = [delete_topics.DeleteTopicState(name=each) for each in many()]
    return of(delete_topics, 6, delete_topics.DeleteTopicsRequest(topics=topics))


def _grow() -> bytes:
    topics = [create_partitions.CreatePartitionsTopic(each, 3, None) for each in many()]
    return of(create_partitions, 3, create_partitions.CreatePartitionsRequest(topics))


def _grow_wide() -> bytes:
    topic = create_partitions.CreatePartitionsTopic(WIDE, 2 * WIDE_PARTITIONS, None)
    return of(create_partitions, 3, create_partitions.CreatePartitionsRequest([topic]))


def _describe_configs() -> bytes:
    asked = [describe_configs.DescribeConfigsResource(2, each, None) for each in many()]
    request = describe_configs.DescribeConfigsRequest(
        asked, include_synonyms=True, include_documentation=True
    )
    return of(describe_configs, 4, request)


def _alter_configs() -> bytes:
    one = incremental_alter_configs.AlterableConfig
    resource = incremental_alter_configs.AlterConfigsResource
    asked = [resource(2, each, [one("retention.ms", 0, "1000000")]) for each in many()]
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(asked)
    return of(incremental_alter_configs, 1, request)


def _fetch(count: int = FETCHED) -> bytes:
    partitions = [
        fetch.FetchPartition(each % WIDE_PARTITIONS, partition_max_bytes=1 << 20)
        for each in range(count)
    ]
    topic = fetch.FetchTopic(topic=WIDE, partitions=partitions)
    request = fetch.FetchRequest(max_bytes=1 << 20, session_epoch=0, topics=[topic])
    return of(fetch, 12, request)


def _fetch_distinct() -> bytes:
    parts = [fetch.FetchPartition(each, partition_max_bytes=1) for each in range(WIDE_PARTITIONS)]
    topics = [fetch.FetchTopic(topic=WIDE, partitions=parts)]
    parts = [fetch.FetchPartition(0, partition_max_bytes=1)]
    topics += [fetch.FetchTopic(topic=each, partitions=parts) for each in islice(many(), 2_400)]
    request = fetch.FetchRequest(max_bytes=1 << 20, session_epoch=0, topics=topics)
    return of(fetch, 12, request)


def _by_time() -> bytes:
    partitions = [
        list_offsets.ListOffsetsPartition(each, timestamp=TIME_MS)
        for each in range(WIDE_PARTITIONS)
    ]
    topic = list_offsets.ListOffsetsTopic(WIDE, partitions)
    return of(list_offsets, 7, list_offsets.ListOffsetsRequest(topics=[topic]))


def _producers() -> bytes:
    topic = describe_producers.TopicRequest(WIDE, list(range(WIDE_PARTITIONS)))
    request = describe_producers.DescribeProducersRequest([topic])
    return of(describe_producers, 0, request)


def _leader_epochs() -> bytes:
    one = offset_for_leader_epoch.OffsetForLeaderPartition
    asked = [one(each % WIDE_PARTITIONS, leader_epoch=0) for each in range(COUNT)]
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(WIDE, asked)
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])
    return of(offset_for_leader_epoch, 4, request)


def _log_dirs() -> bytes:
    asked = [
        describe_log_dirs.DescribableLogDirTopic(WIDE, list(range(WIDE_PARTITIONS)))
        for _ in range(9)
    ]
    return of(describe_log_dirs, 4, describe_log_dirs.DescribeLogDirsRequest(asked))


def _reassign() -> bytes:
    one = alter_partition_reassignments.ReassignablePartition
    asked = [one(each % WIDE_PARTITIONS, [1]) for each in range(HALF)]
    topic = alter_partition_reassignments.ReassignableTopic(WIDE, asked)
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        60_000, topics=[topic]
    )
    return of(alter_partition_reassignments, 0, request)


def _delete_records() -> bytes:
    one = delete_records.DeleteRecordsPartition
    asked = [one(each % WIDE_PARTITIONS, 0) for each in range(COUNT)]
    topic = delete_records.DeleteRecordsTopic(WIDE, asked)
    return of(delete_records, 2, delete_records.DeleteRecordsRequest([topic], 60_000))


def _join(protocols: int, metadata_bytes: bytes) -> bytes:
    one = join_group.JoinGroupRequestProtocol
    asked = [one(each, metadata_bytes) for each in names("p", protocols)]
    request = join_group.JoinGroupRequest("joined", 30_000, 30_000, "", None, "consumer", asked)
    return of(join_group, 3, request)


def _sync(assignments: int, assignment: bytes) -> bytes:
    one = sync_group.SyncGroupRequestAssignment
    asked = [one(each, assignment) for each in names("m", assignments)]
    request = sync_group.SyncGroupRequest("joined", 1, "m", assignments=asked)
    return of(sync_group, 3, request)


def _elect() -> bytes:
    topic = elect_leaders.TopicPartitions(WIDE, [each % WIDE_PARTITIONS for each in range(COUNT)])
    return of(elect_leaders, 2, elect_leaders.ElectLeadersRequest(0, [topic], 60_000))


def _reassignments() -> bytes:
    one = list_partition_reassignments.ListPartitionReassignmentsTopics
    asked = [one(WIDE, [each % WIDE_PARTITIONS for each in range(COUNT)])]
    request = list_partition_reassignments.ListPartitionReassignmentsRequest(60_000, asked)
    return of(list_partition_reassignments, 0, request)


def _offset_delete() -> bytes:
    one = offset_delete.OffsetDeleteRequestPartition
    asked = [one(each % WIDE_PARTITIONS) for each in range(COUNT)]
    topic = offset_delete.OffsetDeleteRequestTopic(WIDE, asked)
    return of(offset_delete, 0, offset_delete.OffsetDeleteRequest(GROUP, [topic]))


def _leave() -> bytes:
    members = [leave_group.MemberIdentity(each) for each in names("m")]
    return of(leave_group, 3, leave_group.LeaveGroupRequest(GROUP, members=members))


def _topic_partitions() -> bytes:
    asked = [describe_topic_partitions.TopicRequest(each) for each in names("u")]
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(asked)
    return of(describe_topic_partitions, 0, request)


def _coordinators() -> bytes:
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=list(names("g")), key_type=0)
    return of(find_coordinator, 4, request)


def _describe_groups() -> bytes:
    return of(describe_groups, 5, describe_groups.DescribeGroupsRequest(list(names("g"))))


def _delete_groups() -> bytes:
    return of(delete_groups, 2, delete_groups.DeleteGroupsRequest(list(names("g"))))


def _every() -> list[int]:
    return [each % WIDE_PARTITIONS for each in range(COUNT)]


def _fetch_single() -> bytes:
    return _offset_fetch([(each, [0]) for each in names("u", HALF)])


DEAR = (
    Dear(
        "Metadata, 900,000 names",
        ApiKey.METADATA,
        9,
        lambda: _metadata("n", TOO_MANY, may_create=False),
    ),
    Dear(
        "Metadata, unknown names",
        ApiKey.METADATA,
        9,
        lambda: _metadata("n", COUNT, may_create=False),
    ),
    Dear(
        "Metadata, all topics",
        ApiKey.METADATA,
        9,
        lambda: of(metadata, 9, metadata.MetadataRequest(None)),
    ),
    Dear(
        "OffsetFetch, one topic", ApiKey.OFFSET_FETCH, 8, lambda: _offset_fetch([(WIDE, _every())])
    ),
    Dear("OffsetFetch, many topics", ApiKey.OFFSET_FETCH, 8, _fetch_single),
    Dear("OffsetFetch, all of a group", ApiKey.OFFSET_FETCH, 8, lambda: _offset_fetch(None)),
    Dear("OffsetCommit", ApiKey.OFFSET_COMMIT, 8, lambda: commit(COUNT)),
    Dear("ListOffsets", ApiKey.LIST_OFFSETS, 7, _list_offsets),
    Dear("DescribeConfigs", ApiKey.DESCRIBE_CONFIGS, 4, _describe_configs),
    Dear("IncrementalAlterConfigs", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, _alter_configs),
    Dear("DescribeGroups", ApiKey.DESCRIBE_GROUPS, 5, _describe_groups),
    Dear(
        "ListGroups",
        ApiKey.LIST_GROUPS,
        4,
        lambda: of(list_groups, 4, list_groups.ListGroupsRequest()),
    ),
    Dear("DeleteGroups", ApiKey.DELETE_GROUPS, 2, _delete_groups),
    Dear("JoinGroup, 7 MiB", ApiKey.JOIN_GROUP, 3, lambda: _join(1, BLOB)),
    Dear("JoinGroup, many protocols", ApiKey.JOIN_GROUP, 3, lambda: _join(COUNT, b"")),
    Dear("SyncGroup, 7 MiB", ApiKey.SYNC_GROUP, 3, lambda: _sync(1, BLOB)),
    Dear("SyncGroup, many members", ApiKey.SYNC_GROUP, 3, lambda: _sync(COUNT, b"")),
    Dear("LeaveGroup", ApiKey.LEAVE_GROUP, 3, _leave),
    Dear("FindCoordinator", ApiKey.FIND_COORDINATOR, 4, _coordinators),
    Dear("DescribeTopicPartitions", ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, _topic_partitions),
    Dear("Fetch, one topic", ApiKey.FETCH, 12, _fetch),
    Dear("Fetch, many topics", ApiKey.FETCH, 12, _fetch_distinct),
    Dear("Fetch, 95,000 partitions", ApiKey.FETCH, 12, lambda: _fetch(COUNT)),
    Dear("Produce, tiny batches", ApiKey.PRODUCE, 9, lambda: batches(BATCHES, WIDE_PARTITIONS)),
    Dear("Produce, one partition", ApiKey.PRODUCE, 9, lambda: batches(BATCHES, 1)),
    Dear("Produce, 100,000 batches", ApiKey.PRODUCE, 9, lambda: batches(100_000, 1)),
    Dear("Produce, new producers", ApiKey.PRODUCE, 9, of_many_producers),
    Dear(
        "Produce, zstd, 1,000,000 headers",
        ApiKey.PRODUCE,
        9,
        lambda: bomb(headers(), Codec.ZSTD, 1),
    ),
    Dear("Produce, zstd, 64 MiB", ApiKey.PRODUCE, 9, lambda: bomb(zeros(64 << 20), Codec.ZSTD, 1)),
    Dear(
        "Produce, gzip, 2 MiB x 500",
        ApiKey.PRODUCE,
        9,
        lambda: bomb(zeros(2 << 20), Codec.GZIP, 500),
    ),
    Dear(
        "Produce, lz4, 2 MiB x 500",
        ApiKey.PRODUCE,
        9,
        lambda: bomb(zeros(2 << 20), Codec.LZ4, 500),
    ),
    Dear("ListOffsets by time", ApiKey.LIST_OFFSETS, 7, _by_time),
    Dear("DescribeProducers", ApiKey.DESCRIBE_PRODUCERS, 0, _producers),
    Dear("OffsetForLeaderEpoch", ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, _leader_epochs),
    Dear("DescribeLogDirs", ApiKey.DESCRIBE_LOG_DIRS, 4, _log_dirs),
    Dear("AlterPartitionReassignments", ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, _reassign),
    Dear("ListPartitionReassignments", ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, _reassignments),
    Dear("ElectLeaders", ApiKey.ELECT_LEADERS, 2, _elect),
    Dear("DeleteRecords", ApiKey.DELETE_RECORDS, 2, _delete_records),
    Dear("OffsetDelete", ApiKey.OFFSET_DELETE, 0, _offset_delete),
    Dear("CreateTopics, one of 10,000", ApiKey.CREATE_TOPICS, 7, lambda: create(["wide2"], 10_000)),
    Dear(
        "CreateTopics, 10,000 of one",
        ApiKey.CREATE_TOPICS,
        7,
        lambda: create(names("c", 10_000), 1),
    ),
    Dear(
        "Metadata, creates topics",
        ApiKey.METADATA,
        9,
        lambda: _metadata("a", COUNT, may_create=True),
    ),
    Dear(
        "Metadata, all of more topics",
        ApiKey.METADATA,
        9,
        lambda: of(metadata, 9, metadata.MetadataRequest(None)),
    ),
    Dear("CreatePartitions, one topic", ApiKey.CREATE_PARTITIONS, 3, _grow_wide),
    Dear("CreatePartitions, many topics", ApiKey.CREATE_PARTITIONS, 3, _grow),
    Dear("DeleteTopics", ApiKey.DELETE_TOPICS, 6, _delete),
)
