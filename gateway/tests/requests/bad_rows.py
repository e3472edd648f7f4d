"""Requests for missing or forbidden things, each with the code that it must get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.worlds.cluster.neighbour import TOPIC
from tidegate_protocol.consumer_protocol import encode_subscription
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import create_partitions as cp
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_records as dr
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)


@dataclass(frozen=True)
class Answered:
    """A request, the code that it must get, and `of`, which takes the code from the answer."""

    name: str
    version: int
    request: Any
    code: E
    of: Callable[[Any], int]


def code_of(answer: Any) -> int:
    return int(answer.error_code)


def first(*path: str) -> Callable[[Any], int]:
    """Return a function that follows the path by first items, and returns the last item's code."""

    def find(answer: Any) -> int:
        for step in path:
            answer = getattr(answer, step)[0]
        return code_of(answer)

    return find


def fetch(
    offset: int = 0, topic: str = TOPIC, partition: int = 0, epoch: int = -1
) -> fe.FetchRequest:
    asked = fe.FetchPartition(partition, epoch, offset, partition_max_bytes=1000)
    return fe.FetchRequest(max_wait_ms=10, topics=[fe.FetchTopic(topic, partitions=[asked])])


def fetch_row(code: E, **asked: Any) -> Answered:
    return Answered("Fetch", 12, fetch(**asked), code, first("responses", "partitions"))


def create_row(code: E, name: str, partitions: int = 1, factor: int = 1, **more: Any) -> Answered:
    topic = ct.CreatableTopic(name, partitions, factor, **more)
    request = ct.CreateTopicsRequest([topic], 1000)
    return Answered("CreateTopics", 7, request, code, first("topics"))


def config(name: str, value: str | None) -> list[ct.CreatableTopicConfig]:
    return [ct.CreatableTopicConfig(name, value)]


def grow_row(code: E, name: str, count: int) -> Answered:
    request = cp.CreatePartitionsRequest([cp.CreatePartitionsTopic(name, count, None)], 1000)
    return Answered("CreatePartitions", 3, request, code, first("results"))


def alter_row(code: E, kind: int, resource: str, name: str, value: str | None) -> Answered:
    configs = [ia.AlterableConfig(name, 0, value)]
    request = ia.IncrementalAlterConfigsRequest([ia.AlterConfigsResource(kind, resource, configs)])
    return Answered("IncrementalAlterConfigs", 1, request, code, first("responses"))


def join_request(**more: Any) -> jg.JoinGroupRequest:
    """Return a request that is valid but for `more`."""
    metadata = encode_subscription(ConsumerProtocolSubscription([TOPIC]))
    asked: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [jg.JoinGroupRequestProtocol("range", metadata)],
    }
    return jg.JoinGroupRequest(**(asked | more))


def join_row(code: E, **more: Any) -> Answered:
    return Answered("JoinGroup", 9, join_request(**more), code, code_of)


def commit_row(
    code: E, *, group: str = "g", generation: int = -1, member: str = "", topic: str = TOPIC,
    partition: int = 0,
) -> Answered:  # fmt: skip
    place = oc.OffsetCommitRequestTopic(
        topic, partitions=[oc.OffsetCommitRequestPartition(partition, 1)]
    )
    request = oc.OffsetCommitRequest(group, generation, member, topics=[place])
    return Answered("OffsetCommit", 8, request, code, first("topics", "partitions"))


def list_row(code: E, topic: str, partition: int, epoch: int = -1) -> Answered:
    place = lo.ListOffsetsTopic(topic, [lo.ListOffsetsPartition(partition, epoch, -1)])
    request = lo.ListOffsetsRequest(-1, 0, [place])
    return Answered("ListOffsets", 7, request, code, first("topics", "partitions"))


def delete_records_row(code: E, topic: str, partition: int, offset: int) -> Answered:
    place = dr.DeleteRecordsTopic(topic, [dr.DeleteRecordsPartition(partition, offset)])
    request = dr.DeleteRecordsRequest([place], 1000)
    return Answered("DeleteRecords", 2, request, code, first("topics", "partitions"))


def metadata_row(code: E, **topic: Any) -> Answered:
    request = md.MetadataRequest([md.MetadataRequestTopic(**topic)], False)
    return Answered("Metadata", 12, request, code, first("topics"))
