"""Answers in which random scripts once differed from Apache Kafka's; see
compat-tests/transactions/differential.
"""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from tests.worlds.transaction_client import COMMITTED, Producer, T, end, fetch, init, started, write
from tests.worlds.wire_client import WireClient, wire_world
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import delete_topics as dl
from tidegate_protocol.messages import describe_transactions as dt


async def described(client: WireClient) -> Any:
    """Return the answer of DescribeTransactions for the id x."""
    asked = dt.DescribeTransactionsRequest(["x"])
    [state] = (await client.call("DescribeTransactions", 0, asked)).transaction_states
    return state


async def verify(client: WireClient, producer: Producer, version: int) -> int:
    topics = [ap.AddPartitionsToTxnTopic(T, [0])]
    one = ap.AddPartitionsToTxnTransaction("x", *producer, verify_only=True, topics=topics)
    request = ap.AddPartitionsToTxnRequest([one])
    answer = await client.call("AddPartitionsToTxn", version, request)
    [row] = answer.results_by_transaction[0].topic_results[0].results_by_partition
    return int(row.partition_error_code)


async def test_an_ended_transaction_keeps_its_start_time(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        assert (await described(client)).transaction_start_time_ms == -1
        await write(client, topic_id, producer, 0)
        begun = (await described(client)).transaction_start_time_ms
        assert begun > 0
        await end(client, producer)
        state = await described(client)
        assert (state.transaction_state, state.transaction_start_time_ms) == (
            "CompleteCommit",
            begun,
        )
        following = await init(client)
        assert (await described(client)).transaction_start_time_ms == -1
        await end(client, following, committed=False)
        assert (await described(client)).transaction_start_time_ms >= begun


@pytest.mark.parametrize("version", [4, 5])
async def test_a_verification_in_vain_is_abortable(autojump_clock: MockClock, version: int) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        producer = await init(client)
        assert await verify(client, producer, version) == E.TRANSACTION_ABORTABLE


async def test_an_unknown_topic_has_no_aborted_transactions(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        await client.call("DeleteTopics", 5, dl.DeleteTopicsRequest([], [T], 1000))
        found = await fetch(client, 0, isolation=COMMITTED)
        assert found.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        assert found.aborted_transactions == []


async def test_an_unknown_partition_is_told_whoever_writes(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        assert await write(client, topic_id, producer, 0, partition=9, name="y") == unknown
        unnamed = E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await write(client, topic_id, producer, 0, partition=9, name=None) == unnamed


async def test_a_fetch_after_the_last_stable_offset_names_no_producer(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        first, second = await init(client), await init(client, "y")
        await write(client, topic_id, first, 0)
        await write(client, topic_id, second, 0, name="y")
        await end(client, first, committed=False)
        for offset, aborted in ((0, [0]), (1, []), (2, [])):
            found = await fetch(client, offset, isolation=COMMITTED)
            assert [each.first_offset for each in found.aborted_transactions] == aborted


async def test_unknown_partitions_are_told_before_an_empty_id(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        topics = [ap.AddPartitionsToTxnTopic(T, [0, 9])]
        request = ap.AddPartitionsToTxnRequest([], "", 1, 0, topics)
        answer = await client.call("AddPartitionsToTxn", 3, request)
        [result] = answer.results_by_topic_v3_and_below
        codes = [each.partition_error_code for each in result.results_by_partition]
        assert codes == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
