"""ListOffsets, OffsetForLeaderEpoch and DescribeProducers: as of Kafka 4.3.  No tiered storage."""

from __future__ import annotations

from collections import Counter
from typing import Final

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_producers as dp
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import offset_for_leader_epoch as oe

from .. import rights
from ..broker_state import Asked
from ..log.model_log import COMMITTED, LOG_END, WATERMARK, FoundTime
from ..model_topics import ModelPartition
from ..refusals import Refused

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_FIRST_VERSIONS: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    -5: 9,  # the latest offset in tiered storage
    -6: 11,  # the earliest offset that is not yet in tiered storage
}
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
_FIRST_VERSION_WITH_EPOCH: Final = 4
_FIRST_VERSION_WITH_NOT_AVAILABLE: Final = 5


async def answer_list_offsets(
    asked: Asked, request: lo.ListOffsetsRequest
) -> lo.ListOffsetsResponse:
    """A consumer sees up to the high watermark or the last stable offset; replicas see the end."""
    await trio.lowlevel.checkpoint()
    times_asked = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    response = lo.ListOffsetsResponse()
    for topic in request.topics:
        answers = lo.ListOffsetsTopicResponse(topic.name)
        for each in topic.partitions:
            is_repeated = times_asked[topic.name, each.partition_index] > 1
            try:
                if not asked.may(rights.DESCRIBE, rights.TOPIC, topic.name):
                    raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.name)
                if is_repeated:
                    raise Refused(ErrorCode.INVALID_REQUEST, "asked twice")
                answer = _offset(asked, request, topic.name, each)
            except Refused as refused:
                answer = lo.ListOffsetsPartitionResponse(each.partition_index, refused.code)
            answers.partitions.append(answer)
        response.topics.append(answers)
    return response


def _offset(
    asked: Asked, request: lo.ListOffsetsRequest, name: str, wanted: lo.ListOffsetsPartition
) -> lo.ListOffsetsPartitionResponse:
    timestamp = wanted.timestamp
    if timestamp < 0 and asked.version < _FIRST_VERSIONS.get(timestamp, asked.version + 1):
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"time {timestamp}")
    leads = request.replica_id != _DEBUGGER
    partition = asked.broker.hosted(
        name, wanted.partition_index, wanted.current_leader_epoch, leads=leads
    )
    isolation = LOG_END
    if request.replica_id == _CONSUMER:
        isolation = COMMITTED if request.isolation_level else WATERMARK
    found = _found(asked, partition, timestamp, isolation)
    answer = lo.ListOffsetsPartitionResponse(wanted.partition_index)
    if found is not None:
        answer.offset, answer.timestamp = found.offset, found.timestamp_ms
        if asked.version >= _FIRST_VERSION_WITH_EPOCH:
            answer.leader_epoch = found.leader_epoch
    return answer


def _found(
    asked: Asked, partition: ModelPartition, timestamp: int, isolation: str
) -> FoundTime | None:
    """Return the offset of a time; None where the answer is -1."""
    log = partition.log
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        first = log.epochs.starts[0] if log.epochs.starts else None
        is_known = first is not None and first.start_offset <= log.log_start
        return FoundTime(log.log_start, -1, first.epoch if first and is_known else -1)
    end = log.limit(isolation)
    if timestamp == _LATEST:
        _check_watermark(asked, partition, isolation)
        return FoundTime(end, -1, partition.leader_epoch)
    if timestamp == _MAX_TIMESTAMP:
        found = log.find_latest_time()
    else:
        found = log.find_time(timestamp) if timestamp >= 0 else None
    if found is None or found.offset >= end:
        _check_watermark(asked, partition, isolation)
        return None
    return found


def _check_watermark(asked: Asked, partition: ModelPartition, isolation: str) -> None:
    """Refuse a consumer while the high watermark is below the start of the leader's epoch."""
    log = partition.log
    if isolation != LOG_END and log.epoch_start > log.high_watermark:
        is_known = asked.version >= _FIRST_VERSION_WITH_NOT_AVAILABLE
        code = ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        raise Refused(code, "the high watermark lags")


async def answer_epochs(
    asked: Asked, request: oe.OffsetForLeaderEpochRequest
) -> oe.OffsetForLeaderEpochResponse:
    """Say where epochs end."""
    await trio.lowlevel.checkpoint()
    sees_all = asked.may(rights.CLUSTER_ACTION, rights.CLUSTER)
    response = oe.OffsetForLeaderEpochResponse()
    for topic in request.topics:
        is_allowed = sees_all or asked.may(rights.DESCRIBE, rights.TOPIC, topic.topic)
        answers = oe.OffsetForLeaderTopicResult(topic.topic)
        for each in topic.partitions:
            answers.partitions.append(_epoch_end(asked, topic.topic, each, is_allowed))
        response.topics.append(answers)
    return response


def _epoch_end(
    asked: Asked, name: str, wanted: oe.OffsetForLeaderPartition, is_allowed: bool
) -> oe.EpochEndOffset:
    if not is_allowed:
        return oe.EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted.partition)
    try:
        partition = asked.broker.hosted(name, wanted.partition, wanted.current_leader_epoch)
    except Refused as refused:
        return oe.EpochEndOffset(refused.code, wanted.partition)
    log = partition.log
    epoch, end_offset = log.epochs.end_of(wanted.leader_epoch, log.end_offset)
    return oe.EpochEndOffset(ErrorCode.NONE, wanted.partition, epoch, end_offset)


async def answer_producers(
    asked: Asked, request: dp.DescribeProducersRequest
) -> dp.DescribeProducersResponse:
    """Show what the replica here knows of producers, by their ids."""
    await trio.lowlevel.checkpoint()
    response = dp.DescribeProducersResponse()
    for topic in request.topics:
        answers = dp.TopicResponse(topic.name)
        for index in topic.partition_indexes:
            try:
                if not asked.may(rights.READ, rights.TOPIC, topic.name):
                    raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.name)
                partition = asked.broker.hosted(topic.name, index, leads=False)
                answers.partitions.append(_producers(partition))
            except Refused as refused:
                answers.partitions.append(dp.PartitionResponse(index, refused.code))
        response.topics.append(answers)
    return response


def _producers(partition: ModelPartition) -> dp.PartitionResponse:
    states = partition.log.producers.by_id
    rows = [
        dp.ProducerState(
            producer_id,
            state.epoch,
            state.last_sequence,
            state.last_timestamp_ms,
            state.coordinator_epoch,
            -1 if state.transaction_start is None else state.transaction_start,
        )
        for producer_id, state in sorted(states.items())
    ]
    return dp.PartitionResponse(partition.key.partition, active_producers=rows)
