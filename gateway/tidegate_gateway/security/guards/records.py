"""Guards of the APIs of records.  Produce and Fetch check in their handlers: a produce request
answers batch by batch in two stages, and the partitions of a fetch are those of its session.
"""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    delete_records,
    describe_producers,
    list_offsets,
    offset_for_leader_epoch,
)

from ..guard import Caller, Guarding, parted

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def guard_list_offsets(caller: Caller, request: list_offsets.ListOffsetsRequest) -> Guarding:
    """DESCRIBE of each topic."""
    request.topics, denied = yield from parted(
        request.topics, lambda each: caller.may_topic(Operation.DESCRIBE, each.name)
    )
    response = list_offsets.ListOffsetsResponse()
    if request.topics or not denied:
        response = yield request
    response.topics += [
        list_offsets.ListOffsetsTopicResponse(
            topic.name,
            [
                list_offsets.ListOffsetsPartitionResponse(each.partition_index, _DENIED)
                for each in topic.partitions
            ],
        )
        for topic in denied
    ]
    return response


def guard_offset_for_leader_epoch(
    caller: Caller, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest
) -> Guarding:
    """CLUSTER_ACTION on the cluster, or DESCRIBE of each topic."""
    if caller.sees_cluster(Operation.CLUSTER_ACTION):
        return (yield request)
    request.topics, denied = yield from parted(
        request.topics, lambda each: caller.may_topic(Operation.DESCRIBE, each.topic)
    )
    response = offset_for_leader_epoch.OffsetForLeaderEpochResponse()
    if request.topics or not denied:
        response = yield request
    response.topics += [
        offset_for_leader_epoch.OffsetForLeaderTopicResult(
            topic.topic,
            [
                offset_for_leader_epoch.EpochEndOffset(_DENIED, each.partition)
                for each in topic.partitions
            ],
        )
        for topic in denied
    ]
    return response


def guard_delete_records(caller: Caller, request: delete_records.DeleteRecordsRequest) -> Guarding:
    """DELETE of each topic."""
    request.topics, denied = yield from parted(
        request.topics, lambda each: caller.may_topic(Operation.DELETE, each.name)
    )
    response = delete_records.DeleteRecordsResponse()
    if request.topics or not denied:
        response = yield request
    response.topics += [
        delete_records.DeleteRecordsTopicResult(
            topic.name,
            [
                delete_records.DeleteRecordsPartitionResult(each.partition_index, -1, _DENIED)
                for each in topic.partitions
            ],
        )
        for topic in denied
    ]
    return response


def guard_describe_producers(
    caller: Caller, request: describe_producers.DescribeProducersRequest
) -> Guarding:
    """READ of each topic."""
    request.topics, denied = yield from parted(
        request.topics, lambda each: caller.may_topic(Operation.READ, each.name)
    )
    response = describe_producers.DescribeProducersResponse()
    if request.topics or not denied:
        response = yield request
    response.topics += [
        describe_producers.TopicResponse(
            topic.name,
            [
                describe_producers.PartitionResponse(index, _DENIED, error_text(_DENIED))
                for index in topic.partition_indexes
            ],
        )
        for topic in denied
    ]
    return response
