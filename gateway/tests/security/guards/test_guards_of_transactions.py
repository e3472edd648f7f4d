"""The guards of transactions: what a handler gets, and how other parts are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate_coordination.security.acls import Operation
from tidegate_gateway.requests.transactions import guards as transactions
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import add_partitions_to_txn as add_wire
from tidegate_protocol.messages import describe_transactions as describe_txn_wire
from tidegate_protocol.messages import end_txn as end_wire
from tidegate_protocol.messages import init_producer_id as init_wire
from tidegate_protocol.messages import list_transactions as list_txn_wire
from tidegate_protocol.messages import txn_offset_commit as txn_commit_wire
from tidegate_protocol.messages import write_txn_markers as markers_wire

from .guard_world import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    ID_DENIED,
    SEES_OPEN,
    TOPIC_DENIED,
    codes,
    group,
    run,
    topic,
    transactional_id,
)
from .guard_world import cluster as on_cluster


@pytest.mark.parametrize(
    ("name", "right", "any_topic", "code"),
    [
        ("x", transactional_id(Operation.WRITE, "x"), False, 0),
        ("x", on_cluster(Operation.IDEMPOTENT_WRITE), True, ID_DENIED),
        (None, on_cluster(Operation.IDEMPOTENT_WRITE), False, 0),
        (None, transactional_id(Operation.WRITE, "x"), True, 0),
        (None, transactional_id(Operation.WRITE, "x"), False, CLUSTER_DENIED),
    ],
)
def test_producer_ids(name: str | None, right: Any, any_topic: bool, code: int) -> None:
    request = init_wire.InitProducerIdRequest(name)
    done = run(
        transactions.guard_init_producer_id,
        request,
        right,
        answer=lambda _: init_wire.InitProducerIdResponse(producer_id=3),
        any_topic=any_topic,
    )
    assert done.response.error_code == code
    assert (done.passed is None) == bool(code)
    assert done.response.producer_id == (-1 if code else 3)


def add(*topic_names: str) -> add_wire.AddPartitionsToTxnRequest:
    """Return a request to add partition 0 of each topic."""
    return add_wire.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[add_wire.AddPartitionsToTxnTopic(each, [0]) for each in topic_names],
    )


def added(response: Any) -> dict[str, int]:
    """Return the code of each topic."""
    return {
        each.name: each.results_by_partition[0].partition_error_code
        for each in response.results_by_topic_v3_and_below
    }


def test_no_partition_is_added_if_one_is_denied() -> None:
    with_id = transactional_id(Operation.WRITE, "x")
    guard = transactions.guard_add_partitions_to_txn
    done = run(guard, add("a", "b"), with_id, topic(Operation.WRITE, "a"), version=3)
    assert done.passed is None
    assert added(done.response) == {"a": ErrorCode.OPERATION_NOT_ATTEMPTED, "b": TOPIC_DENIED}
    done = run(guard, add("a"), topic(Operation.WRITE, "a"), version=3)
    assert added(done.response) == {"a": ID_DENIED}
    done = run(guard, add("__consumer_offsets"), with_id, version=3)
    assert added(done.response) == {"__consumer_offsets": TOPIC_DENIED}
    done = run(guard, add("a"), with_id, version=4)
    assert done.response.error_code == CLUSTER_DENIED


def test_staged_offsets_need_id_group_and_topic() -> None:
    def ask(*allowed: Any) -> dict[Any, int]:
        request = txn_commit_wire.TxnOffsetCommitRequest(
            "x",
            "g",
            topics=[
                txn_commit_wire.TxnOffsetCommitRequestTopic(
                    "t", [txn_commit_wire.TxnOffsetCommitRequestPartition(0, 1)]
                )
            ],
        )
        done = run(
            transactions.guard_txn_offset_commit,
            request,
            *allowed,
            answer=lambda _: txn_commit_wire.TxnOffsetCommitResponse(),
        )
        return codes(done.response)

    may_id, may_group = transactional_id(Operation.WRITE, "x"), group(Operation.READ, "g")
    assert ask(may_group) == {"t": ID_DENIED}
    assert ask(may_id) == {"t": GROUP_DENIED}
    assert ask(may_id, may_group) == {"t": TOPIC_DENIED}
    assert ask(may_id, may_group, topic(Operation.READ, "t")) == {}


def test_the_end_of_a_transaction_needs_its_id() -> None:
    done = run(transactions.guard_end_txn, end_wire.EndTxnRequest("x"))
    assert (done.passed, done.response.error_code) == (None, ID_DENIED)


def test_described_transactions_show_visible_topics_only() -> None:
    request = describe_txn_wire.DescribeTransactionsRequest(["x", "y"])
    done = run(
        transactions.guard_describe_transactions,
        request,
        transactional_id(Operation.DESCRIBE, "x"),
        SEES_OPEN,
        answer=lambda asked: describe_txn_wire.DescribeTransactionsResponse(
            transaction_states=[
                describe_txn_wire.TransactionState(
                    transactional_id=each,
                    topics=[describe_txn_wire.TopicData(e) for e in ("open", "secret")],
                )
                for each in asked.transactional_ids
            ]
        ),
    )
    shown, refused = done.response.transaction_states
    assert [each.topic for each in shown.topics] == ["open"]
    assert (refused.transactional_id, refused.error_code) == ("y", ID_DENIED)


def test_listed_transactions_are_those_that_the_client_sees() -> None:
    done = run(
        transactions.guard_list_transactions,
        list_txn_wire.ListTransactionsRequest(),
        transactional_id(Operation.DESCRIBE, "x"),
        answer=lambda _: list_txn_wire.ListTransactionsResponse(
            transaction_states=[list_txn_wire.TransactionState(each) for each in ("x", "y")]
        ),
    )
    assert [each.transactional_id for each in done.response.transaction_states] == ["x"]


@pytest.mark.parametrize("operation", [Operation.ALTER, Operation.CLUSTER_ACTION, None])
def test_markers_are_for_brokers_and_admins(operation: Operation | None) -> None:
    request = markers_wire.WriteTxnMarkersRequest(
        [markers_wire.WritableTxnMarker(7, topics=[markers_wire.WritableTxnMarkerTopic("t", [0])])]
    )
    allowed = [on_cluster(operation)] if operation else []
    done = run(transactions.guard_write_txn_markers, request, *allowed, answer=lambda _: "done")
    if operation:
        assert done.response == "done"
    else:
        [marker] = done.response.markers
        assert marker.producer_id == 7
        assert marker.topics[0].partitions[0].error_code == CLUSTER_DENIED
