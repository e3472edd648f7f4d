"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: as of Kafka 4.3.

Versions of clients that do not know PRODUCER_FENCED get INVALID_PRODUCER_EPOCH (KIP-588).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC
from tidegate_gateway.topics.internal_topics import TRANSACTIONS_TOPIC
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import init_producer_id as ip

from .. import rights
from ..broker_state import Asked
from ..model_topics import PartitionKey
from ..model_transaction import NOTHING, ModelTransaction, offsets_key, refused
from ..refusals import Refused
from ..transactions.access import circumstances, coordinated, known, may_write
from ..transactions.ends import ProducerIdentity, end, end_and_bump
from ..transactions.keeper import keep
from ..transactions.steps import add, initialise, verify

_FIRST_INIT_WITH_FENCED: Final = 4
_FIRST_STEP_WITH_FENCED: Final = 2
_FIRST_ADD_OF_BROKERS: Final = 4
_FIRST_END_WITH_BUMP: Final = 5
_INTERNAL_TOPICS: Final = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


def _told(code: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    is_new = code == ErrorCode.PRODUCER_FENCED and not knows_fenced
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_new else code


async def answer_init_producer_id(
    asked: Asked, request: ip.InitProducerIdRequest
) -> ip.InitProducerIdResponse:
    """Give a new producer id, or raise the epoch of a transactional id's producer id."""
    await trio.lowlevel.checkpoint()
    try:
        given = _init_producer_id(asked, request)
    except Refused as failed:
        code = _told(failed.code, knows_fenced=asked.version >= _FIRST_INIT_WITH_FENCED)
        return ip.InitProducerIdResponse(
            error_code=code, producer_id=NOTHING, producer_epoch=NOTHING
        )
    return ip.InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.epoch)


def _init_producer_id(asked: Asked, request: ip.InitProducerIdRequest) -> ProducerIdentity:
    broker, name = asked.broker, request.transactional_id
    _check_init(asked, request)
    if name is None:
        return ProducerIdentity(broker.cluster.next_producer_id(broker.node_id), 0)
    transaction = coordinated(asked, name)
    if transaction is None:
        producer_id = broker.cluster.next_producer_id(broker.node_id)
        transaction = broker.cluster.transactions[name] = ModelTransaction(name, producer_id)
    expected = None
    if request.producer_id != NOTHING:
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    is_given = initialise(
        transaction, expected, request.transaction_timeout_ms, circumstances(broker)
    )
    if not is_given:
        keep(broker, transaction)
        raise refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    return ProducerIdentity(transaction.producer_id, transaction.epoch)


def _check_init(asked: Asked, request: ip.InitProducerIdRequest) -> None:
    name = request.transactional_id
    if name is None:
        is_allowed = asked.may(rights.IDEMPOTENT_WRITE, rights.CLUSTER) or asked.may(
            rights.WRITE, rights.TOPIC
        )
        if not is_allowed:
            raise refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif not may_write(asked, name):
        raise refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id == NOTHING) != (request.producer_epoch == NOTHING):
        raise refused(ErrorCode.INVALID_REQUEST)
    if name is None:
        return
    if not name:
        raise refused(ErrorCode.INVALID_REQUEST)
    longest = asked.broker.cluster.transaction_settings.max_timeout_ms
    if not 0 < request.transaction_timeout_ms <= longest:
        raise refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


# -- AddPartitionsToTxn ---------------------------------------------------------------------------


async def answer_add_partitions(
    asked: Asked, request: ap.AddPartitionsToTxnRequest
) -> ap.AddPartitionsToTxnResponse:
    """Add partitions for a client; since version 4 add or verify them for brokers."""
    await trio.lowlevel.checkpoint()
    if asked.version < _FIRST_ADD_OF_BROKERS:
        one = ap.AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        results = _results(one, _added(asked, one))
        return ap.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    if not asked.may(rights.CLUSTER_ACTION, rights.CLUSTER):
        return ap.AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return ap.AddPartitionsToTxnResponse(
        results_by_transaction=[
            ap.AddPartitionsToTxnResult(each.transactional_id, _results(each, _added(asked, each)))
            for each in request.transactions
        ]
    )


def _keys(wanted: ap.AddPartitionsToTxnTransaction) -> Iterator[PartitionKey]:
    for topic in wanted.topics:
        for index in topic.partitions:
            yield PartitionKey(topic.name, index)


def _results(
    wanted: ap.AddPartitionsToTxnTransaction, codes: dict[PartitionKey, ErrorCode]
) -> list[ap.AddPartitionsToTxnTopicResult]:
    return [
        ap.AddPartitionsToTxnTopicResult(
            topic.name,
            [
                ap.AddPartitionsToTxnPartitionResult(index, codes[PartitionKey(topic.name, index)])
                for index in topic.partitions
            ],
        )
        for topic in wanted.topics
    ]


def _added(asked: Asked, wanted: ap.AddPartitionsToTxnTransaction) -> dict[PartitionKey, ErrorCode]:
    """Return a code for each partition; if one of them has an error, none is added."""
    name, keys = wanted.transactional_id, list(_keys(wanted))
    if asked.version < _FIRST_ADD_OF_BROKERS and not may_write(asked, name):
        return dict.fromkeys(keys, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    codes = {each: _partition_error(asked, each) for each in keys}
    if any(codes.values()):
        return {each: code or ErrorCode.OPERATION_NOT_ATTEMPTED for each, code in codes.items()}
    producer = ProducerIdentity(wanted.producer_id, wanted.producer_epoch)
    try:
        if not name:
            raise refused(ErrorCode.INVALID_REQUEST)
        transaction = known(coordinated(asked, name))
        if wanted.verify_only:
            return {each: _verified(transaction, producer, each) for each in keys}
        _grow(asked, transaction, producer, *keys)
    except Refused as failed:
        code = _told(failed.code, knows_fenced=asked.version >= _FIRST_STEP_WITH_FENCED)
        return dict.fromkeys(keys, code)
    return codes


def _partition_error(asked: Asked, key: PartitionKey) -> ErrorCode:
    topic = asked.broker.cluster.topics.get(key.topic)
    if asked.version < _FIRST_ADD_OF_BROKERS:
        is_internal = key.topic in _INTERNAL_TOPICS or (topic is not None and topic.is_internal)
        if is_internal or not asked.may(rights.WRITE, rights.TOPIC, key.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or topic.partition(key.partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _verified(
    transaction: ModelTransaction, producer: ProducerIdentity, key: PartitionKey
) -> ErrorCode:
    try:
        verify(transaction, producer, key)
    except Refused as failed:
        return failed.code
    return ErrorCode.NONE


def _grow(
    asked: Asked, transaction: ModelTransaction, producer: ProducerIdentity, *keys: PartitionKey
) -> None:
    add(transaction, producer, keys, asked.broker.now_ms())
    keep(asked.broker, transaction)


async def answer_add_offsets(
    asked: Asked, request: ao.AddOffsetsToTxnRequest
) -> ao.AddOffsetsToTxnResponse:
    """Let a group's offsets take part."""
    await trio.lowlevel.checkpoint()
    name = request.transactional_id
    if not may_write(asked, name):
        return ao.AddOffsetsToTxnResponse(
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    if not asked.may(rights.READ, rights.GROUP, request.group_id):
        return ao.AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    try:
        if not name:
            raise refused(ErrorCode.INVALID_REQUEST)
        transaction = known(coordinated(asked, name))
        _grow(asked, transaction, producer, offsets_key(request.group_id))
    except Refused as failed:
        code = _told(failed.code, knows_fenced=asked.version >= _FIRST_STEP_WITH_FENCED)
        return ao.AddOffsetsToTxnResponse(error_code=code)
    return ao.AddOffsetsToTxnResponse()


# -- EndTxn ---------------------------------------------------------------------------------------


async def answer_end_txn(asked: Asked, request: et.EndTxnRequest) -> et.EndTxnResponse:
    """Decide the end of a transaction; the markers follow after the answer."""
    await trio.lowlevel.checkpoint()
    try:
        transaction = _end_txn(asked, request)
    except Refused as failed:
        code = _told(failed.code, knows_fenced=asked.version >= _FIRST_STEP_WITH_FENCED)
        return et.EndTxnResponse(error_code=code)
    if asked.version < _FIRST_END_WITH_BUMP:
        return et.EndTxnResponse()
    if transaction.next_producer_id != NOTHING:
        return et.EndTxnResponse(producer_id=transaction.next_producer_id, producer_epoch=0)
    return et.EndTxnResponse(producer_id=transaction.producer_id, producer_epoch=transaction.epoch)


def _end_txn(asked: Asked, request: et.EndTxnRequest) -> ModelTransaction:
    name, commits = request.transactional_id, request.committed
    if not may_write(asked, name):
        raise refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not name:
        raise refused(ErrorCode.INVALID_REQUEST)
    transaction = known(coordinated(asked, name))
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    if asked.version >= _FIRST_END_WITH_BUMP:
        own = circumstances(asked.broker)
        is_new = end_and_bump(transaction, producer, own, commits=commits)
    else:
        is_new = end(transaction, producer, commits=commits)
    if is_new:
        keep(asked.broker, transaction)
    return transaction
