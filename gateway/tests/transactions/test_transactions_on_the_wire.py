"""Transactions as clients see them: requests of both versions, reads, and Kafka's tools."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.transaction_client import (
    COMMITTED,
    T,
    end,
    end_offset,
    fetch,
    init,
    offsets_of,
    started,
    write,
)
from tests.worlds.wire_client import wire_world
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_protocol.batches import read_header
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import describe_producers as dp
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import txn_offset_commit as tc
from tidegate_protocol.messages import write_txn_markers as wm
from tidegate_protocol.records import walk
from tidegate_storage.stores.memory_store import MemoryObjectStore


async def test_committed_readers_wait_for_the_end(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        assert await write(client, topic_id, producer, 0) == E.NONE
        reader = world.connect()
        assert offsets_of(await fetch(reader, 0, isolation=0)) == [0]
        found = await fetch(reader, 0, isolation=COMMITTED)
        assert (offsets_of(found), found.last_stable_offset, found.high_watermark) == ([], 0, 1)
        assert [await end_offset(reader, each) for each in (0, COMMITTED)] == [1, 0]
        begun = trio.current_time()
        waited: list[Any] = []

        async def wait() -> None:
            waited.append(await fetch(reader, 0, isolation=COMMITTED, wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            answer = await end(client, producer)
            assert (answer.error_code, answer.producer_epoch) == (E.NONE, 1)
        assert offsets_of(waited[0]) == [0, 1]
        assert waited[0].aborted_transactions == []
        assert trio.current_time() - begun < 5  # the end of the transaction woke the fetch
        assert await end_offset(reader, COMMITTED) == 2


async def test_aborted_records_are_sent_with_their_producer(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await write(client, topic_id, producer, 0)
        answer = await end(client, producer, committed=False)
        following = (answer.producer_id, answer.producer_epoch)
        await write(client, topic_id, following, 0)
        await end(client, following)
        found = await fetch(client, 0, isolation=COMMITTED)
        assert offsets_of(found) == [0, 1, 2, 3]
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions]
        assert aborted == [(producer[0], 0)]
        data = memoryview(found.records)
        headers = [read_header(data, at) for at, _ in walk(data)]
        assert [each.is_control for each in headers] == [False, True, False, True]
        assert [each.producer_epoch for each in headers] == [0, 1, 1, 2]
        # A fetch that starts after the marker must not name the aborted transaction.
        later = await fetch(client, 2, isolation=COMMITTED)
        assert (offsets_of(later), later.aborted_transactions) == ([2, 3], [])
        assert (await fetch(client, 0, isolation=0)).aborted_transactions is None


async def test_only_transactions_of_the_records_in_the_answer_are_named(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        for _ in range(3):
            await write(client, topic_id, producer, 0)
            answer = await end(client, producer, committed=False)
            producer = (answer.producer_id, answer.producer_epoch)
        found = await fetch(client, 0, isolation=COMMITTED)
        assert [each.first_offset for each in found.aborted_transactions] == [0, 2, 4]
        first_bytes = len(found.records) // 3
        found = await fetch(client, 0, isolation=COMMITTED, size=first_bytes + 5)
        assert offsets_of(found) == [0, 1]
        assert [each.first_offset for each in found.aborted_transactions] == [0]
        assert (await fetch(client, 6, isolation=COMMITTED)).aborted_transactions == []


@pytest.mark.parametrize(
    ("version", "code"), [(11, E.TRANSACTION_ABORTABLE), (10, E.INVALID_TXN_STATE)]
)
async def test_older_producers_add_their_partitions(
    version: int, code: E, autojump_clock: MockClock
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client, version=4)
        assert await write(client, topic_id, producer, 0, version=version) == code
        topics = [ap.AddPartitionsToTxnTopic(T, [0, 1])]
        adding = ap.AddPartitionsToTxnRequest([], "x", *producer, topics)
        answer = await client.call("AddPartitionsToTxn", 3, adding)
        [result] = answer.results_by_topic_v3_and_below
        assert [each.partition_error_code for each in result.results_by_partition] == [0, 0]
        assert await write(client, topic_id, producer, 0, version=version) == E.NONE
        for _ in range(2):
            assert (await end(client, producer, version=4)).error_code == E.NONE
        refused = await end(client, producer, committed=False, version=4)
        assert refused.error_code == E.INVALID_TXN_STATE
        assert await end_offset(client, COMMITTED) == 2


async def test_partitions_are_added_all_or_none(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        producer = await init(client)
        topics = [ap.AddPartitionsToTxnTopic(T, [0, 7]), ap.AddPartitionsToTxnTopic("no", [0])]
        adding = ap.AddPartitionsToTxnRequest([], "x", *producer, topics)
        answer = await client.call("AddPartitionsToTxn", 3, adding)
        codes = [
            [each.partition_error_code for each in topic.results_by_partition]
            for topic in answer.results_by_topic_v3_and_below
        ]
        untried, unknown = E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [[untried, unknown], [unknown]]
        assert (await end(client, producer, version=4)).error_code == E.INVALID_TXN_STATE
        checking = ap.AddPartitionsToTxnTransaction("x", *producer, True, topics[:1])
        checking.topics = [ap.AddPartitionsToTxnTopic(T, [0])]
        request = ap.AddPartitionsToTxnRequest([checking])
        answer = await client.call("AddPartitionsToTxn", 5, request)
        [row] = answer.results_by_transaction[0].topic_results[0].results_by_partition
        assert row.partition_error_code == E.TRANSACTION_ABORTABLE


@pytest.mark.parametrize(
    ("version", "code"), [(5, E.PRODUCER_FENCED), (1, E.INVALID_PRODUCER_EPOCH)]
)
async def test_a_second_client_fences_the_first(
    version: int, code: E, autojump_clock: MockClock
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await write(client, topic_id, producer, 0)
        await init(world.connect())
        assert await write(client, topic_id, producer, 1) == E.INVALID_PRODUCER_EPOCH
        request = et.EndTxnRequest("x", producer[0], producer[1] + 7, True)
        assert (await client.call("EndTxn", version, request)).error_code == code
        assert await end_offset(client, COMMITTED) == 2


async def test_batches_of_another_id_are_refused(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        codes = [
            await write(client, topic_id, producer, 0, name="y"),
            await write(client, topic_id, producer, 0, name=None),
            await write(client, topic_id, producer, 0),
        ]
        assert codes == [
            E.INVALID_PRODUCER_ID_MAPPING,
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            E.NONE,
        ]


async def test_offsets_of_a_transaction_are_unstable_until_its_end(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        producer = await init(client)

        async def fetched(*, stable: bool) -> tuple[int, int]:
            topics = [of.OffsetFetchRequestTopics(T, partition_indexes=[0])]
            request = of.OffsetFetchRequest(
                groups=[of.OffsetFetchRequestGroup("g", topics=topics)], require_stable=stable
            )
            answer = await client.call("OffsetFetch", 8, request)
            part = answer.groups[0].topics[0].partitions[0]
            return part.committed_offset, part.error_code

        row = tc.TxnOffsetCommitRequestPartition(0, 5)
        staging = tc.TxnOffsetCommitRequest(
            "x", "g", *producer, topics=[tc.TxnOffsetCommitRequestTopic(T, [row])]
        )
        for version, code in ((3, E.INVALID_TXN_STATE), (4, E.TRANSACTION_ABORTABLE)):
            answer = await client.call("TxnOffsetCommit", version, staging)
            assert answer.topics[0].partitions[0].error_code == code
        adding = ao.AddOffsetsToTxnRequest("x", *producer, "g")
        assert (await client.call("AddOffsetsToTxn", 3, adding)).error_code == E.NONE
        answer = await client.call("TxnOffsetCommit", 3, staging)
        assert answer.topics[0].partitions[0].error_code == E.NONE
        assert await fetched(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        assert await fetched(stable=False) == (-1, E.NONE)
        await end(client, producer)
        assert await fetched(stable=True) == (5, E.NONE)


async def test_a_transaction_that_lasts_too_long_is_aborted(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await write(client, topic_id, producer, 0)
        await trio.sleep(55)
        assert await end_offset(client, COMMITTED) == 0
        await trio.sleep(60)
        assert await end_offset(client, COMMITTED) == 2
        assert await write(client, topic_id, producer, 1) == E.INVALID_PRODUCER_EPOCH
        answer = await end(client, producer, committed=False)
        assert (answer.error_code, answer.producer_epoch) == (E.NONE, 1)


async def test_unused_ids_are_forgotten(autojump_clock: MockClock) -> None:
    settings = {
        "transactional.id.expiration.ms": "60000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "30000",
    }
    async with wire_world(settings) as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await trio.sleep(300)
        assert list(world.gateway.coordinator.state.transactions.names()) == []
        code = await write(client, topic_id, producer, 0)
        assert code == E.INVALID_PRODUCER_ID_MAPPING


async def test_any_gateway_coordinates_a_transactional_id(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, _ = await started(world)
        asked = fc.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        [found] = (await client.call("FindCoordinator", 4, asked)).coordinators
        assert (found.error_code, found.node_id) == (E.NONE, 1)
        assert "__transaction_state" in world.gateway.coordinator.state.topics.by_name


async def test_tools_see_transactions(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await init(client, "other")
        await write(client, topic_id, producer, 0, partition=1)
        asked = dt.DescribeTransactionsRequest(["x", "no"])
        states = (await client.call("DescribeTransactions", 0, asked)).transaction_states
        assert [each.error_code for each in states] == [E.NONE, E.TRANSACTIONAL_ID_NOT_FOUND]
        one = states[0]
        assert (one.transaction_state, one.producer_id, one.producer_epoch) == (
            "Ongoing",
            *producer,
        )
        assert [(each.topic, each.partitions) for each in one.topics] == [(T, [1])]

        async def listed(request: lt.ListTransactionsRequest) -> Any:
            return await client.call("ListTransactions", 2, request)

        async def names(request: lt.ListTransactionsRequest) -> list[str]:
            return [e.transactional_id for e in (await listed(request)).transaction_states]

        assert await names(lt.ListTransactionsRequest()) == ["x", "other"]
        assert await names(lt.ListTransactionsRequest(["Ongoing"])) == ["x"]
        assert await names(lt.ListTransactionsRequest([], [producer[0] + 1])) == ["other"]
        assert await names(lt.ListTransactionsRequest(duration_filter=0)) == ["other"]
        assert await names(lt.ListTransactionsRequest(duration_filter=-2)) == ["x", "other"]
        assert await names(lt.ListTransactionsRequest(transactional_id_pattern="o.*")) == ["other"]
        bad = await listed(lt.ListTransactionsRequest(transactional_id_pattern="("))
        assert bad.error_code == E.INVALID_REGULAR_EXPRESSION
        unknown = await listed(lt.ListTransactionsRequest(["Asleep"]))
        assert unknown.unknown_state_filters == ["Asleep"]
        request = dp.DescribeProducersRequest([dp.TopicRequest(T, [1])])
        answer = await client.call("DescribeProducers", 0, request)
        [state] = answer.topics[0].partitions[0].active_producers
        assert (state.producer_id, state.current_txn_start_offset) == (producer[0], 0)


async def test_durations_count_from_the_start_of_the_last_transaction(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        open_one, ended = await init(client, "open"), await init(client)
        await init(client, "idle")
        await write(client, topic_id, open_one, 0, name="open")
        await write(client, topic_id, ended, 0)
        await end(client, ended)

        async def names(duration_ms: int) -> list[str]:
            request = lt.ListTransactionsRequest(duration_filter=duration_ms)
            answer = await client.call("ListTransactions", 2, request)
            return [each.transactional_id for each in answer.transaction_states]

        for any_duration in (-1, -5):
            assert await names(any_duration) == ["open", "x", "idle"]
        assert await names(10_000) == ["idle"]
        await trio.sleep(11)
        assert await names(10_000) == ["open", "x", "idle"]


async def test_an_operator_aborts_a_transaction(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await write(client, topic_id, producer, 0)
        await write(client, topic_id, producer, 0, partition=1)

        async def mark(epoch: int, *, committed: bool = False) -> int:
            marker = wm.WritableTxnMarker(
                producer[0], epoch, committed, [wm.WritableTxnMarkerTopic(T, [1])]
            )
            answer = await client.call("WriteTxnMarkers", 1, wm.WriteTxnMarkersRequest([marker]))
            return int(answer.markers[0].topics[0].partitions[0].error_code)

        assert await mark(0, committed=True) == E.INVALID_REQUEST
        assert await mark(-1) == E.INVALID_PRODUCER_EPOCH
        assert await mark(0) == E.NONE
        assert await end_offset(client, COMMITTED) == 2
        assert await mark(0) == E.NONE  # no transaction is open any more
        assert await write(client, topic_id, producer, 1) == E.INVALID_PRODUCER_EPOCH


async def test_a_restarted_gateway_keeps_what_is_open(autojump_clock: MockClock) -> None:
    log, store = MemoryLog(), MemoryObjectStore()
    async with wire_world(log=log, store=store) as world:
        client, topic_id = await started(world)
        producer = await init(client)
        await write(client, topic_id, producer, 0)
    async with wire_world(log=log, store=store) as world:
        client = world.connect()
        assert await end_offset(client, COMMITTED) == 0
        assert await write(client, topic_id, producer, 1) == E.NONE
        assert (await end(client, producer)).error_code == E.NONE
        assert offsets_of(await fetch(client, 0, isolation=COMMITTED)) == [0, 1, 2]
