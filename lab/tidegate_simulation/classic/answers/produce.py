"""Produce: as of Kafka 4.3, with the rights, checks and waits of a leader.

As in Kafka, the transaction of a batch is looked at before the batch itself is: a batch that is
refused later may have added its partition.

Differs from Kafka: compression.type has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import BatchHeader, read_header

from .. import rights
from ..broker_state import Asked, BrokerState, ConnectionClosed
from ..endpoints import endpoint
from ..log.batch_checks import check_client_batch, one_batch, transactional_head
from ..model_topics import ModelPartition, PartitionKey
from ..refusals import Refused
from ..transactions.ends import ProducerIdentity
from ..transactions.taking_part import take_part

_ALL: Final = -1
_FIRST_VERSION_WITH_ABORTABLE: Final = 11
_FIRST_VERSION_OF_TRANSACTIONS_2: Final = 12
_FIRST_VERSION_WITH_IDS: Final = 13
_FIRST_VERSION_WITH_LEADERS: Final = 10
_WHILE_NOT_VERIFIED: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


@dataclass(slots=True, eq=False)
class _Placed:
    """A partition of the request.  end_offset: an answer to acks=all waits for it, unless None."""

    answer: pr.PartitionProduceResponse
    partition: ModelPartition | None = None
    end_offset: int | None = None
    min_insync_replicas: int = 1


async def answer_produce(asked: Asked, request: pr.ProduceRequest) -> pr.ProduceResponse | None:
    """Append the batches; None for acks=0.

    Raises:
      ConnectionClosed: acks=0, and a partition failed.
    """
    code = _whole_error(asked, request)
    response, placed = pr.ProduceResponse(), list[_Placed]()
    for topic in request.topic_data:
        answers = pr.TopicProduceResponse(topic.name, topic.topic_id)
        for each in topic.partition_data:
            if code:
                one = _failed(each.index, code)
            else:
                one = await _produce(asked, request, topic, each)
            placed.append(one)
            answers.partition_responses.append(one.answer)
        response.responses.append(answers)
    if request.acks == _ALL:
        await _wait(asked.broker, placed, request.timeout_ms)
    if asked.version >= _FIRST_VERSION_WITH_LEADERS:
        _name_leaders(asked.broker, response, placed)
    if request.acks:
        return response
    if any(each.answer.error_code for each in placed):
        raise ConnectionClosed
    return None


def _whole_error(asked: Asked, request: pr.ProduceRequest) -> ErrorCode:
    """Return the error of all partitions: of the transactional id, or of a torn batch."""
    batches = [each.records for topic in request.topic_data for each in topic.partition_data]
    try:
        heads = [head for each in batches if (head := transactional_head(each)) is not None]
    except Refused as refused:
        return refused.code
    if not heads:
        return ErrorCode.NONE
    name = request.transactional_id
    if name is None or not asked.may(rights.WRITE, rights.TRANSACTIONAL_ID, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if len({(each.producer_id, each.producer_epoch) for each in heads}) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE


async def _produce(
    asked: Asked,
    request: pr.ProduceRequest,
    topic: pr.TopicProduceData,
    data: pr.PartitionProduceData,
) -> _Placed:
    cluster = asked.broker.cluster
    name = topic.name
    if asked.version >= _FIRST_VERSION_WITH_IDS:
        found = cluster.topic_named(topic.topic_id)
        if found is None:
            return _failed(data.index, ErrorCode.UNKNOWN_TOPIC_ID)
        name = found.name
    if not asked.may(rights.WRITE, rights.TOPIC, name):
        return _failed(data.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    key = PartitionKey(name, data.index)
    try:
        partition = asked.broker.partition(*key)
        raw = one_batch(data.records, asked.version)
    except Refused as refused:
        return _failed(data.index, refused.code)
    for each in cluster.observers:
        each.arrived(key, raw)
    if request.acks not in (_ALL, 0, 1):
        return _failed(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    try:
        guard = await _take_part(asked, key, raw, request)
        return await _append(asked, key, raw, request, guard)
    except Refused as refused:
        return _refused(data.index, refused, partition.log.log_start, partition)


async def _take_part(
    asked: Asked, key: PartitionKey, raw: bytes, request: pr.ProduceRequest
) -> int:
    """Add or verify the partition in the batch's transaction; return the producer's guard."""
    header, broker = read_header(raw), asked.broker
    if not header.is_transactional:
        return 0
    producers = broker.hosted(*key).log.producers
    producer = ProducerIdentity(header.producer_id, header.producer_epoch)
    if producers.is_open(*producer):
        return producers.guard(header.producer_id)
    may_add = asked.version >= _FIRST_VERSION_OF_TRANSACTIONS_2
    try:
        await take_part(
            broker,
            request.transactional_id or "",
            producer,
            key,
            may_add=may_add,
            knows_abortable=asked.version >= _FIRST_VERSION_WITH_ABORTABLE,
        )
    except Refused as refused:
        is_early = refused.code == ErrorCode.CONCURRENT_TRANSACTIONS and not may_add
        if is_early or refused.code in _WHILE_NOT_VERIFIED:
            raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS, "not verified") from refused
        raise
    return producers.guard(header.producer_id)


async def _append(
    asked: Asked, key: PartitionKey, raw: bytes, request: pr.ProduceRequest, guard: int
) -> _Placed:
    """Check the batch, and append it a moment later: the settings may have changed meanwhile.

    guard: if the producer has another guard now, the transaction has ended meanwhile.
    """
    broker = asked.broker
    topic = broker.topic(key.topic)
    if topic.is_internal:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "internal", tells_log_start=False)
    partition, settings = broker.hosted(*key), broker.settings(topic)
    needed = min(settings.min_insync_replicas, len(partition.replicas))
    if request.acks == _ALL and len(partition.isr) < needed:
        raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(partition.isr)} of {needed}")
    batch = check_client_batch(raw, settings, broker.now_ms())
    pause = broker.append_pause()
    if pause > 0:
        await trio.sleep(pause)
        partition = broker.hosted(*key)
    appended = partition.log.append(
        batch,
        settings,
        broker.now_ms(),
        is_verified=_is_verified(broker, partition, batch.header, guard),
        starts_at_zero=asked.version >= _FIRST_VERSION_OF_TRANSACTIONS_2,
    )
    if not appended.is_repeat:
        for each in broker.cluster.observers:
            each.appended(partition, raw, appended.first_offset)
        broker.appended(partition)
    answer = pr.PartitionProduceResponse(
        key.partition,
        base_offset=appended.first_offset,
        log_append_time_ms=appended.timestamp_ms,
        log_start_offset=partition.log.log_start,
    )
    return _Placed(answer, partition, appended.last_offset + 1, needed)


def _is_verified(
    broker: BrokerState, partition: ModelPartition, header: BatchHeader, guard: int
) -> bool:
    if not broker.cluster.profile.verifies:
        return True
    return partition.log.producers.guard(header.producer_id) == guard


async def _wait(broker: BrokerState, placed: list[_Placed], timeout_ms: int) -> None:
    """Wait until all in-sync replicas have the batches; other partitions get REQUEST_TIMED_OUT."""
    waiting = [each for each in placed if each.end_offset is not None]
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        while waiting := [each for each in waiting if not _is_settled(broker, each)]:
            keys = [each.partition.key for each in waiting if each.partition is not None]
            with broker.signals.watch(keys) as changed:
                await changed.wait()
    for each in waiting:
        if not _is_settled(broker, each):
            each.answer.error_code = ErrorCode.REQUEST_TIMED_OUT


def _is_settled(broker: BrokerState, placed: _Placed) -> bool:
    partition, end_offset = placed.partition, placed.end_offset
    if partition is None or end_offset is None:
        return True
    if partition.leader != broker.node_id:
        placed.answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return True
    if partition.log.high_watermark < end_offset:
        return False
    if len(partition.isr) < placed.min_insync_replicas:
        placed.answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return True


def _failed(index: int, code: ErrorCode) -> _Placed:
    return _Placed(pr.PartitionProduceResponse(index, code, base_offset=-1))


def _refused(index: int, refused: Refused, log_start: int, partition: ModelPartition) -> _Placed:
    answer = pr.PartitionProduceResponse(index, refused.code, base_offset=-1)
    if refused.tells_log_start:
        answer.log_start_offset = log_start
    if refused.bad_records:
        answer.error_message = str(refused)
        answer.record_errors = [
            pr.BatchIndexAndErrorMessage(place, str(refused)) for place in refused.bad_records
        ]
    return _Placed(answer, partition)


def _name_leaders(broker: BrokerState, response: pr.ProduceResponse, placed: list[_Placed]) -> None:
    """Name the leader beside NOT_LEADER_OR_FOLLOWER (KIP-951)."""
    leaders: dict[int, None] = {}
    for each in placed:
        partition = each.partition
        if each.answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and partition is not None:
            each.answer.current_leader = pr.LeaderIdAndEpoch(
                partition.leader, partition.leader_epoch
            )
            leaders[partition.leader] = None
    response.node_endpoints = [
        pr.NodeEndpoint(*found)
        for node_id in leaders
        if (found := endpoint(broker.cluster, node_id)) is not None
    ]
