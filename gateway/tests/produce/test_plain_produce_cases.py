"""Single cases of the plain produce path."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.produce.test_bad_batches import changed
from tests.worlds.cluster.several_gateways import Clock, cluster
from tests.worlds.stores.slow_store import SlowStore
from tests.worlds.wire_client import (
    WireClient,
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_gateway.network.arenas import Arena
from tidegate_gateway.network.connection import Connection
from tidegate_gateway.requests.records.produce_fast_path import PlainProducePath
from tidegate_protocol.batches import TRANSACTIONAL
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import produce as pr

Producer = tuple[int, int]
"""Producer id and epoch."""


async def initialised(client: WireClient, name: str) -> Producer:
    answer = await client.call("InitProducerId", 5, ip.InitProducerIdRequest(name, 60_000))
    return answer.producer_id, answer.producer_epoch


async def written(
    client: WireClient, producer: Producer, sequence: int, attributes: int = TRANSACTIONAL
) -> E:
    """Write a batch in a request of the transactional id "x"; return the error."""
    batch = records_batch(
        b"value",
        attributes=attributes,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
    request = produce_request([("t", 0, batch)], transactional_id="x")
    answer = await client.call("Produce", 12, request)
    return E(answer.responses[0].partition_responses[0].error_code)


async def ended(client: WireClient, producer: Producer) -> Producer:
    answer = await client.call("EndTxn", 5, et.EndTxnRequest("x", *producer, True))
    assert answer.error_code == E.NONE
    return answer.producer_id, answer.producer_epoch


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that tells for each request whether the plain path took it."""
    found: list[bool] = []
    start = PlainProducePath.start

    def noted(path: PlainProducePath, to: Connection, frame: memoryview, arena: Arena) -> bool:
        found.append(start(path, to, frame, arena))
        return found[-1]

    monkeypatch.setattr(PlainProducePath, "start", noted)
    return found


async def test_transactions_follow_each_other_on_the_plain_path(
    autojump_clock: MockClock, taken: list[bool]
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        client = world.connect()
        producer = await initialised(client, "x")
        for _ in range(3):
            assert await written(client, producer, 0) == E.NONE
            assert await written(client, producer, 1) == E.NONE
            producer = await ended(client, producer)
        assert taken == [True] * 6


async def test_a_known_prefix_does_not_admit_the_producer_of_another_id(
    autojump_clock: MockClock, taken: list[bool]
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        client = world.connect()
        own, other = await initialised(client, "x"), await initialised(client, "y")
        assert await written(client, own, 0) == E.NONE
        assert await written(client, other, 0) == E.INVALID_PRODUCER_ID_MAPPING
        assert await written(client, (own[0] + 900, 0), 0) == E.INVALID_PRODUCER_ID_MAPPING
        assert await written(client, own, 1) == E.NONE
        assert taken == [True, False, False, True]


async def test_a_plain_batch_of_a_transactional_client_stays_outside_of_the_transaction(
    autojump_clock: MockClock, taken: list[bool]
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        client = world.connect()
        producer = await initialised(client, "x")
        assert await written(client, (77, 0), 0, attributes=0) == E.NONE
        assert await written(client, (77, 0), 1, attributes=0) == E.NONE
        answer = await client.call("EndTxn", 5, et.EndTxnRequest("x", *producer, True))
        assert answer.error_code == E.INVALID_TXN_STATE
        assert taken == [True, True]


async def test_a_produce_request_after_a_slow_fetch_is_not_late(autojump_clock: MockClock) -> None:
    async with cluster() as world:
        store = world.store = SlowStore()
        one = await world.start(1, Clock())
        await one.world.create_topic("t", 1)
        client = one.world.connect()
        asked = fe.FetchPartition(0, partition_max_bytes=1)
        topics = [fe.FetchTopic("t", partitions=[asked])]
        slow = fe.FetchRequest(max_wait_ms=5000, min_bytes=1, session_epoch=-1, topics=topics)
        quick = produce_request([("t", 0, records_batch(b"b"))])
        quick.timeout_ms = 1000
        store.put_seconds = 0.6
        await client.send(request_frame("Fetch", 12, slow) + request_frame("Produce", 9, quick))
        await client.receive()
        answer = pr.decode_response(memoryview(await client.receive())[5:], 9)
        assert answer.responses[0].partition_responses[0].error_code == E.NONE


async def test_a_producer_id_below_none_is_none(autojump_clock: MockClock) -> None:
    async with cluster() as world:
        one = await world.start(1, Clock())
        await one.world.create_topic("t", 1)
        client = one.world.connect()
        batch = changed(producer_id=-2, producer_epoch=0, base_sequence=5)
        answers = [await client.produce("t", 0, batch) for _ in range(3)]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 2), (0, 4)]
