"""How many functions and listeners one request calls on an idle gateway.

The gateway has the parts that `tidegate serve` makes.  A feature that is off must add no call to
the path of a record.  The recorded counts may only fall.  After a change that lowers them, record
the new counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import NamedTuple

import pytest
from trio.testing import MockClock

from tests.worlds.call_counts import Calls, calls_of
from tests.worlds.transaction_client import init, write
from tests.worlds.wire_client import (
    WireClient,
    WireWorld,
    produce_request,
    records_batch,
    request_frame,
    wire_world,
)
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.movable import MovableLog
from tidegate_gateway.peers.peers import HttpPeers
from tidegate_protocol.messages import end_txn as et
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_runtime.http.client import Connect
from tidegate_runtime.secret import Secret

WARM_UPS = 3
# By chance another task may be ready, or a clock may tick.  So the lowest count is that of the
# path.
ROUNDS = 30


class Recorded(NamedTuple):
    calls: int
    listeners: int


RECORD = Recorded(calls=300, listeners=2)
FETCH = Recorded(calls=165, listeners=0)
END_OF_TRANSACTION = Recorded(calls=289, listeners=3)


async def lowest(next_frame: Callable[[], Awaitable[bytes]], client: WireClient) -> Calls:
    """Return the calls of the round with the fewest."""
    rounds = [await calls_of(client, await next_frame()) for _ in range(WARM_UPS + ROUNDS)]
    return min(rounds[WARM_UPS:], key=lambda each: each.count)


def check(what: str, calls: Calls, recorded: Recorded) -> None:
    """Fail if there are more calls or listeners than recorded."""
    assert len(calls.listeners) <= recorded.listeners, (
        f"{what}: {len(calls.listeners)} listeners are called, {recorded.listeners} are recorded. "
        "Look at the new one's listen(): it must name the tables that it watches, and a feature "
        f"that is off must not listen.\n{calls.listeners}"
    )
    assert calls.count <= recorded.calls, (
        f"{what}: {calls.count} calls, {recorded.calls} are recorded. "
        "Look for work of a feature that is off, for an object that is built whatever the request "
        f"holds, and for a value that is computed twice. These are the calls:\n{calls.table()}"
    )


async def _no_other_log(url: str) -> MetadataLog:
    raise AssertionError(url)


def _no_other_gateway(host: str, port: int) -> Connect:
    raise AssertionError(host)


@pytest.fixture
async def world(autojump_clock: MockClock) -> AsyncIterator[WireWorld]:
    log = MovableLog(MemoryLog(), _no_other_log)
    async with wire_world(log=log, peers=HttpPeers(_no_other_gateway, Secret())) as world:
        yield world


async def test_a_lone_record_calls_no_more_than_before(world: WireWorld) -> None:
    await world.create_topic("t", 1)
    client = world.connect()
    told = await client.call("InitProducerId", 5, ip.InitProducerIdRequest(None, 60_000))
    producer = {"producer_id": told.producer_id, "producer_epoch": told.producer_epoch}
    sequences = count()

    async def next_frame() -> bytes:
        batch = records_batch(b"abcd", base_sequence=next(sequences), **producer)
        return request_frame("Produce", 9, produce_request([("t", 0, batch)]))

    check("one record", await lowest(next_frame, client), RECORD)


async def test_a_fetch_calls_no_more_than_before(world: WireWorld) -> None:
    await world.create_topic("t", 1)
    client = world.connect()
    await client.produce("t", 0, records_batch(b"abcd"))
    asked = fe.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [fe.FetchTopic(topic="t", partitions=[asked])]
    request = fe.FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics)

    async def next_frame() -> bytes:
        return request_frame("Fetch", 12, request)

    check("one fetch", await lowest(next_frame, client), FETCH)


async def test_the_end_of_a_transaction_calls_no_more_than_before(world: WireWorld) -> None:
    topic_id = await world.create_topic("t", 1)
    client = world.connect()

    async def next_frame() -> bytes:
        producer = await init(client)
        assert await write(client, topic_id, producer, 0) == 0
        return request_frame("EndTxn", 5, et.EndTxnRequest("x", *producer, True))

    check("one EndTxn", await lowest(next_frame, client), END_OF_TRANSACTION)
