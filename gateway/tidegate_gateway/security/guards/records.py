"""Guards of the APIs of records.  Produce and Fetch check in their handlers: a produce request
answers batch by batch in two stages, and the partitions of a fetch are those of its session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import (
    delete_records,
    describe_producers,
    list_offsets,
    offset_for_leader_epoch,
)

from ..guard import Caller, Guard, Guarding, parted

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _per_topic(
    operation: Operation,
    name_of: Callable[[Any], str],
    response_of: Callable[[], Any],
    refused: Callable[[Any], Any],
) -> Guard:
    """Return a guard that needs a right to each topic.

    response_of: makes a response without topics.  refused: makes the answer about a topic of the
    request that is denied.
    """

    def guard(caller: Caller, request: Any) -> Guarding:
        request.topics, denied = yield from parted(
            request.topics, lambda each: caller.may_topic(operation, name_of(each))
        )
        response = response_of()
        if request.topics or not denied:
            response = yield request
        response.topics += [refused(each) for each in denied]
        return response

    return guard


def _no_offsets(topic: list_offsets.ListOffsetsTopic) -> list_offsets.ListOffsetsTopicResponse:
    return list_offsets.ListOffsetsTopicResponse(
        topic.name,
        [
            list_offsets.ListOffsetsPartitionResponse(each.partition_index, _DENIED)
            for each in topic.partitions
        ],
    )


def _no_epochs(
    topic: offset_for_leader_epoch.OffsetForLeaderTopic,
) -> offset_for_leader_epoch.OffsetForLeaderTopicResult:
    return offset_for_leader_epoch.OffsetForLeaderTopicResult(
        topic.topic,
        [
            offset_for_leader_epoch.EpochEndOffset(_DENIED, each.partition)
            for each in topic.partitions
        ],
    )


def _not_deleted(
    topic: delete_records.DeleteRecordsTopic,
) -> delete_records.DeleteRecordsTopicResult:
    return delete_records.DeleteRecordsTopicResult(
        topic.name,
        [
            delete_records.DeleteRecordsPartitionResult(each.partition_index, -1, _DENIED)
            for each in topic.partitions
        ],
    )


def _no_producers(topic: describe_producers.TopicRequest) -> describe_producers.TopicResponse:
    return describe_producers.TopicResponse(
        topic.name,
        [
            describe_producers.PartitionResponse(index, _DENIED, error_text(_DENIED))
            for index in topic.partition_indexes
        ],
    )


guard_list_offsets: Final = _per_topic(
    Operation.DESCRIBE,
    lambda topic: topic.name,
    list_offsets.ListOffsetsResponse,
    _no_offsets,
)
guard_delete_records: Final = _per_topic(
    Operation.DELETE,
    lambda topic: topic.name,
    delete_records.DeleteRecordsResponse,
    _not_deleted,
)
guard_describe_producers: Final = _per_topic(
    Operation.READ,
    lambda topic: topic.name,
    describe_producers.DescribeProducersResponse,
    _no_producers,
)
_describing_epochs: Final = _per_topic(
    Operation.DESCRIBE,
    lambda topic: topic.topic,
    offset_for_leader_epoch.OffsetForLeaderEpochResponse,
    _no_epochs,
)


def guard_offset_for_leader_epoch(
    caller: Caller, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest
) -> Guarding:
    """CLUSTER_ACTION on the cluster, or DESCRIBE of each topic."""
    if caller.sees_cluster(Operation.CLUSTER_ACTION):
        return (yield request)
    return (yield from _describing_epochs(caller, request))
