"""ListTransactions and DescribeTransactions: as of Kafka 4.3."""

from __future__ import annotations

import re

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import list_transactions as lt

from .. import rights
from ..broker_state import Asked
from ..model_transaction import ModelTransaction, TransactionState
from ..refusals import Refused
from ..transactions.access import coordinated


async def answer_list_transactions(
    asked: Asked, request: lt.ListTransactionsRequest
) -> lt.ListTransactionsResponse:
    """List the ids that this broker coordinates; none while one of them is loading."""
    await trio.lowlevel.checkpoint()
    try:
        pattern = re.compile(request.transactional_id_pattern or ".*", re.DOTALL)
    except re.error:
        return lt.ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    cluster = asked.broker.cluster
    own = [
        each
        for name, each in cluster.transactions.items()
        if cluster.coordinator_of(name) == asked.broker.node_id
    ]
    if any(each.is_loading for each in own):
        return lt.ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    now_ms = asked.broker.now_ms()
    known = [each.value for each in TransactionState]
    return lt.ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in known],
        transaction_states=[
            lt.TransactionState(each.transactional_id, each.producer_id, each.state.value)
            for each in own
            if _passes(each, request, now_ms)
            and pattern.fullmatch(each.transactional_id)
            and asked.may(rights.DESCRIBE, rights.TRANSACTIONAL_ID, each.transactional_id)
        ],
    )


def _passes(each: ModelTransaction, request: lt.ListTransactionsRequest, now_ms: int) -> bool:
    """Return whether an id passes the filters.

    As in Kafka, the duration counts from the start of the last transaction, even if that has ended.
    """
    if request.producer_id_filters and each.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and each.state.value not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - each.started_ms > request.duration_filter


async def answer_describe_transactions(
    asked: Asked, request: dt.DescribeTransactionsRequest
) -> dt.DescribeTransactionsResponse:
    """Show transactions, with the topics that the principal may describe."""
    await trio.lowlevel.checkpoint()
    return dt.DescribeTransactionsResponse(
        transaction_states=[_described(asked, each) for each in request.transactional_ids]
    )


def _described(asked: Asked, name: str) -> dt.TransactionState:
    if not asked.may(rights.DESCRIBE, rights.TRANSACTIONAL_ID, name):
        return dt.TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, name)
    if not name:
        return dt.TransactionState(ErrorCode.INVALID_REQUEST, name)
    try:
        found = coordinated(asked, name)
    except Refused as failed:
        return dt.TransactionState(failed.code, name)
    if found is None:
        return dt.TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, name)
    return dt.TransactionState(
        ErrorCode.NONE,
        name,
        found.state.value,
        found.timeout_ms,
        found.started_ms,
        found.producer_id,
        found.epoch,
        _topics(asked, found),
    )


def _topics(asked: Asked, transaction: ModelTransaction) -> list[dt.TopicData]:
    by_name: dict[str, list[int]] = {}
    for key in transaction.partitions:
        if asked.may(rights.DESCRIBE, rights.TOPIC, key.topic):
            by_name.setdefault(key.topic, []).append(key.partition)
    return [dt.TopicData(name, sorted(indexes)) for name, indexes in by_name.items()]
