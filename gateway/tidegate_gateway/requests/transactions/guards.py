"""Guards of the APIs of transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)

from ...security.guard import Caller, Guarding, parted
from ...topics.internal_topics import INTERNAL_TOPICS

_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TRANSACTIONAL_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_BY_BROKERS_SINCE: Final = 4


def guard_init_producer_id(
    caller: Caller, request: init_producer_id.InitProducerIdRequest
) -> Guarding:
    """WRITE of the transactional id.  Without one: IDEMPOTENT_WRITE on the cluster, or WRITE of any
    topic.
    """
    code = ErrorCode.NONE
    if request.transactional_id is not None:
        if not caller.may_id(Operation.WRITE, request.transactional_id):
            code = _TRANSACTIONAL_ID
    elif not (
        caller.rights.may_any(Operation.WRITE, ResourceType.TOPIC)
        or caller.may_cluster(Operation.IDEMPOTENT_WRITE)
    ):
        code = _CLUSTER
    if code:
        return init_producer_id.refused(request, caller.version, code)
    return (yield request)


def guard_add_partitions_to_txn(
    caller: Caller, request: add_partitions_to_txn.AddPartitionsToTxnRequest
) -> Guarding:
    """WRITE of the transactional id, and of each topic.

    If the client may not write one of the topics, no partition is added.  Later versions are for
    brokers: CLUSTER_ACTION.
    """
    refused, version = add_partitions_to_txn.refused, caller.version
    if caller.version >= _BY_BROKERS_SINCE:
        if not caller.may_cluster(Operation.CLUSTER_ACTION):
            return refused(request, version, _CLUSTER)
        return (yield request)
    topics = request.v3_and_below_topics
    if not caller.may_id(Operation.WRITE, request.v3_and_below_transactional_id):
        return refused(request, version, _TRANSACTIONAL_ID)
    allowed, denied = yield from parted(
        topics,
        lambda each: (
            each.name not in INTERNAL_TOPICS and caller.may_topic(Operation.WRITE, each.name)
        ),
    )
    if not denied:
        return (yield request)
    response = refused(replace(request, v3_and_below_topics=denied), version, _TOPIC)
    # As in Kafka, except that Kafka checks for missing topics first; here that would cost a read of
    # the log.
    untried = replace(request, v3_and_below_topics=allowed)
    results = refused(untried, version, ErrorCode.OPERATION_NOT_ATTEMPTED)
    response.results_by_topic_v3_and_below += results.results_by_topic_v3_and_below
    return response


def guard_add_offsets_to_txn(
    caller: Caller, request: add_offsets_to_txn.AddOffsetsToTxnRequest
) -> Guarding:
    """WRITE of the transactional id, and READ of the group."""
    code = _id_and_group(caller, request.transactional_id, request.group_id)
    if code:
        return add_offsets_to_txn.refused(request, caller.version, code)
    return (yield request)


def _id_and_group(caller: Caller, transactional_id: str, group_id: str) -> ErrorCode:
    if not caller.may_id(Operation.WRITE, transactional_id):
        return _TRANSACTIONAL_ID
    return ErrorCode.NONE if caller.may_group(Operation.READ, group_id) else _GROUP


def guard_end_txn(caller: Caller, request: end_txn.EndTxnRequest) -> Guarding:
    """WRITE of the transactional id."""
    if not caller.may_id(Operation.WRITE, request.transactional_id):
        return end_txn.refused(request, caller.version, _TRANSACTIONAL_ID)
    return (yield request)


def guard_txn_offset_commit(
    caller: Caller, request: txn_offset_commit.TxnOffsetCommitRequest
) -> Guarding:
    """WRITE of the transactional id, READ of the group, and READ of each topic."""
    code = _id_and_group(caller, request.transactional_id, request.group_id)
    if code:
        return txn_offset_commit.refused(request, caller.version, code)
    allowed, denied = yield from parted(
        request.topics, lambda each: caller.may_topic(Operation.READ, each.name)
    )
    if not denied:
        return (yield request)
    response = txn_offset_commit.TxnOffsetCommitResponse()
    request.topics = allowed
    if allowed:
        response = yield request
    without = replace(request, topics=denied)
    response.topics += txn_offset_commit.refused(without, caller.version, _TOPIC).topics
    return response


def guard_write_txn_markers(
    caller: Caller, request: write_txn_markers.WriteTxnMarkersRequest
) -> Guarding:
    """ALTER of the cluster (kafka-transactions.sh abort), or CLUSTER_ACTION."""
    if caller.sees_cluster(Operation.ALTER) or caller.may_cluster(Operation.CLUSTER_ACTION):
        return (yield request)
    return write_txn_markers.refused(request, caller.version, _CLUSTER)


def guard_describe_transactions(
    caller: Caller, request: describe_transactions.DescribeTransactionsRequest
) -> Guarding:
    """DESCRIBE of each transactional id; the answer shows topics that the client may describe."""
    request.transactional_ids, denied = yield from parted(
        request.transactional_ids, lambda each: caller.may_id(Operation.DESCRIBE, each)
    )
    response = describe_transactions.DescribeTransactionsResponse()
    if request.transactional_ids or not denied:
        response = yield request
    for each in response.transaction_states:
        each.topics, _ = yield from parted(
            each.topics, lambda topic: caller.sees_topic(topic.topic)
        )
    without = replace(request, transactional_ids=denied)
    refused = describe_transactions.refused(without, caller.version, _TRANSACTIONAL_ID)
    response.transaction_states += refused.transaction_states
    return response


def guard_list_transactions(
    caller: Caller, request: list_transactions.ListTransactionsRequest
) -> Guarding:
    """The answer shows the transactional ids that the client may DESCRIBE."""
    response: list_transactions.ListTransactionsResponse = yield request
    sees = caller.rights.sees
    response.transaction_states, _ = yield from parted(
        response.transaction_states,
        lambda each: sees(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id),
    )
    return response
