"""Requests of transaction version 1 whose client has given up and retried elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.stores.slow_store import SlowStore
from tests.worlds.transaction_client import (
    COMMITTED,
    Producer,
    T,
    end,
    end_offset,
    init,
    started,
    write,
)
from tests.worlds.wire_client import WireClient, produce_request, records_batch, request_frame
from tests.worlds.wire_client import wire_world as world_of
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import txn_offset_commit as tc

GROUP = "g"


async def add(client: WireClient, producer: Producer) -> None:
    topics = [ap.AddPartitionsToTxnTopic(T, [0])]
    request = ap.AddPartitionsToTxnRequest([], "x", *producer, topics)
    answer = await client.call("AddPartitionsToTxn", 3, request)
    [result] = answer.results_by_topic_v3_and_below
    assert [each.partition_error_code for each in result.results_by_partition] == [E.NONE]


async def send_and_leave(client: WireClient, name: str, version: int, request: Any) -> None:
    """Send a request, and close the connection before the gateway has read it."""
    await client.send(request_frame(name, version, request))
    client.transport.close()
    await trio.sleep(1)


def batch(producer: Producer, value: bytes) -> bytes:
    epoch = {"producer_id": producer[0], "producer_epoch": producer[1]}
    return records_batch(value, attributes=TRANSACTIONAL, base_sequence=0, **epoch)


async def test_an_initialisation_of_a_client_that_is_gone_fences_no_other(
    autojump_clock: MockClock,
) -> None:
    async with world_of() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        request = ip.InitProducerIdRequest("x", 60_000)
        await send_and_leave(world.connect(), "InitProducerId", 5, request)
        assert await write(client, topic_id, producer, 0) == E.NONE


async def test_a_batch_that_waited_for_the_store_does_not_join_the_next_transaction(
    autojump_clock: MockClock,
) -> None:
    store = SlowStore()
    async with world_of(store=store) as world:
        client, _ = await started(world)
        producer = await init(client, version=4)
        await add(client, producer)
        store.put_seconds = 20
        leaving = world.connect()
        first = produce_request([(T, 0, batch(producer, b"aborted"))], transactional_id="x")
        await leaving.send(request_frame("Produce", 11, first))
        await trio.sleep(1)  # the batch is in an object on its way to the store
        leaving.transport.close()
        store.put_seconds = 0
        assert (await end(client, producer, committed=False, version=4)).error_code == E.NONE
        await add(client, producer)
        second = produce_request([(T, 0, batch(producer, b"committed"))], transactional_id="x")
        answer = await client.call("Produce", 11, second)  # with the sequence of the first batch
        [row] = answer.responses[0].partition_responses
        assert (row.error_code, row.base_offset) == (E.NONE, 1)
        assert (await end(client, producer, version=4)).error_code == E.NONE
        value, _marker = await client.fetch_values(T, 0, 1)
        assert value == b"committed"
        assert await end_offset(client, COMMITTED) == 3


async def test_a_batch_of_a_client_that_is_gone_is_not_written(autojump_clock: MockClock) -> None:
    async with world_of() as world:
        client, _ = await started(world)
        producer = await init(client, version=4)
        await add(client, producer)
        request = produce_request([(T, 0, batch(producer, b"late"))], transactional_id="x")
        await send_and_leave(world.connect(), "Produce", 11, request)
        assert await end_offset(client, 0) == 0


@pytest.mark.parametrize("leaves", [False, True])
async def test_offsets_of_a_client_that_is_gone_are_not_staged(
    leaves: bool, autojump_clock: MockClock
) -> None:
    async with world_of() as world:
        client, _ = await started(world)
        producer = await init(client, version=4)
        adding = ao.AddOffsetsToTxnRequest("x", *producer, GROUP)
        assert (await client.call("AddOffsetsToTxn", 3, adding)).error_code == E.NONE
        part = tc.TxnOffsetCommitRequestPartition(0, 5)
        topics = [tc.TxnOffsetCommitRequestTopic(T, [part])]
        request = tc.TxnOffsetCommitRequest("x", GROUP, *producer, topics=topics)
        if leaves:
            await send_and_leave(world.connect(), "TxnOffsetCommit", 3, request)
        else:
            answer = await client.call("TxnOffsetCommit", 3, request)
            assert answer.topics[0].partitions[0].error_code == E.NONE
        await end(client, producer, version=4)
        asked = of.OffsetFetchRequestGroup(
            GROUP, topics=[of.OffsetFetchRequestTopics(T, partition_indexes=[0])]
        )
        answer = await client.call("OffsetFetch", 8, of.OffsetFetchRequest(groups=[asked]))
        [found] = answer.groups[0].topics[0].partitions
        assert found.committed_offset == (-1 if leaves else 5)
