"""Races between the batches of one produce request, and after its refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import trio
from crc32c import crc32c
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.inline_pool import after
from tests.worlds.stores.slow_store import SlowStore
from tests.worlds.wire_client import (
    NOW_MS,
    WireWorld,
    produce_request,
    records_batch,
    request_frame,
)
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.logs.memory import CAPABILITIES, MemoryLog
from tidegate_gateway.builder import GatewayBuilder
from tidegate_gateway.environment import Environment, Identity
from tidegate_gateway.network.arenas import LARGE_BYTES
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol.batches import CRC_POSITION, CRC_START, HEADER
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.records import Record, build_batch

# WireWorld numbers ports from 50000: two connections created topics, then come `first` and the
# offender.
OFFENDER_PORT = 50_003
# Too large to be checked in the event loop once it is compressed.
LARGE = Random(1).randbytes(20_000)
KEYED = build_batch([Record(0, NOW_MS, b"key", LARGE)], codec=Codec.GZIP)


async def a_second() -> None:
    """Wait as long as a check of records takes."""
    await trio.sleep(1.0)


@asynccontextmanager
async def slow_world(
    store: SlowStore, settings: dict[str, str] | None = None, *, log: MemoryLog | None = None
) -> AsyncIterator[WireWorld]:
    start = trio.current_time()
    builder = GatewayBuilder(
        Identity(1, "key", "az1", (Endpoint("PLAINTEXT", "h", 9092),), "0", "cluster-of-tests"),
        BrokerSettings(settings or {}),
        Environment(
            store=store,
            log=log or MemoryLog(),
            rng=Random(1),
            wall_clock=lambda: NOW_MS / 1000 + trio.current_time() - start,
            pools=inline_pools(after(a_second)),
        ),
    )
    async with trio.open_nursery() as nursery:
        yield WireWorld(await builder.start(nursery), nursery)
        nursery.cancel_scope.cancel()


async def test_an_answer_waits_for_batches_that_are_still_looked_at(
    autojump_clock: MockClock,
) -> None:
    async with slow_world(SlowStore()) as world:
        await world.create_topic("plain", 1)
        await world.create_topic("compacted", 1, cleanup_policy="compact")
        client = world.connect()
        request = produce_request([("plain", 0, records_batch(b"a")), ("compacted", 0, KEYED)])
        answer = await client.call("Produce", 9, request)
        found = [(each.name, each.partition_responses[0].error_code) for each in answer.responses]
        assert found == [("plain", 0), ("compacted", 0)]
        assert await client.fetch_values("compacted", 0, 0) == [LARGE]


async def test_a_connection_that_ends_between_batches_changes_none_of_them(
    autojump_clock: MockClock,
) -> None:
    store = SlowStore()
    async with slow_world(store, {"wal.upload.slots": "1"}) as world:
        await world.create_topic("plain", 2)
        await world.create_topic("compacted", 1, cleanup_policy="compact")
        first, offender, next_user = world.connect(), world.connect(), world.connect()
        store.put_seconds = 4.0
        await first.send(request("plain", 1, records_batch(b"fills the slot")))
        await wait_all_tasks_blocked()
        batches = [("plain", 0, records_batch(b"mine")), ("compacted", 0, KEYED)]
        await offender.send(request_frame("Produce", 9, produce_request(batches)))
        await wait_all_tasks_blocked()
        [connection] = [c for c in world.gateway.connections if c.peer.port == OFFENDER_PORT]
        connection.abort()
        await wait_all_tasks_blocked()
        # The next connection receives into the buffer that was freed last.
        await next_user.send(request("plain", 1, records_batch(b"YOURS, and longer than mine")))
        await trio.sleep(20)
        assert await world.connect().fetch_values("plain", 0, 0) == [b"mine"]


def request(topic: str, partition: int, batch: bytes) -> bytes:
    return request_frame("Produce", 9, produce_request([(topic, partition, batch)]))


async def test_a_refused_request_holds_no_buffer(autojump_clock: MockClock) -> None:
    async with slow_world(SlowStore()) as world:
        client = world.connect()
        answer = await client.produce("unknown", 0, records_batch(bytes(200_000)))
        assert answer.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        assert world.gateway.writes.pool.large_bytes == 0


async def test_refused_requests_do_not_stop_the_others(autojump_clock: MockClock) -> None:
    settings = {"buffered.bytes.max": str(128 << 20)}
    async with slow_world(SlowStore(), settings) as world:
        await world.create_topic("plain", 1)
        for _ in range((128 << 20) // LARGE_BYTES):
            await world.connect().produce("unknown", 0, records_batch(bytes(200_000)))
        answer = await world.connect().produce("plain", 0, records_batch(bytes(200_000)))
        assert answer.error_code == 0


async def test_impossible_record_counts_are_refused_and_cost_no_other_request(
    autojump_clock: MockClock,
) -> None:
    """If the gateway does not decompress a batch, it believes the batch's record count."""
    claims = build_batch([Record(0, NOW_MS, None, b""), Record(2**31 - 2, NOW_MS, None, b"")])
    async with slow_world(SlowStore()) as world:
        await world.create_topic("plain", 4)
        offender = world.connect()
        lie = with_count(bytearray(claims), 2**31 - 1)
        answer = await offender.call(
            "Produce", 9, produce_request([("plain", index, lie) for index in range(3)])
        )
        assert len(answer.responses) == 3
        assert (await world.connect().produce("plain", 3, records_batch(b"x"))).error_code == 0


def with_count(batch: bytearray, count: int) -> bytes:
    """Return the batch with another record count and a correct CRC."""
    batch[HEADER.size - 4 : HEADER.size] = count.to_bytes(4, "big")
    batch[CRC_POSITION:CRC_START] = crc32c(bytes(batch[CRC_START:])).to_bytes(4, "big")
    return bytes(batch)


async def test_a_request_of_more_partitions_than_an_entry_holds(
    autojump_clock: MockClock,
) -> None:
    small_entries = replace(CAPABILITIES, max_entry_bytes=1 << 16)
    async with slow_world(SlowStore(), log=MemoryLog(small_entries)) as world:
        await world.create_topic("wide", 3000)
        batches = [("wide", partition, records_batch(b"x")) for partition in range(3000)]
        answer = await world.connect().call("Produce", 9, produce_request(batches))
        codes = {each.partition_responses[0].error_code for each in answer.responses}
        assert codes == {0}


async def test_a_small_time_out_does_not_end_a_client_that_awaits_no_answer(
    autojump_clock: MockClock,
) -> None:
    store = SlowStore()
    async with slow_world(store) as world:
        await world.create_topic("plain", 1)
        client = world.connect()
        store.put_seconds = 3.0
        silent = produce_request([("plain", 0, records_batch(b"x"))], acks=0)
        silent.timeout_ms = 0
        await client.send(request_frame("Produce", 9, silent))
        await trio.sleep(5)
        assert await client.fetch_values("plain", 0, 0) == [b"x"]


async def test_producers_time_out_while_the_store_is_away(autojump_clock: MockClock) -> None:
    store = SlowStore()
    settings = {"wal.upload.slots": "1", "wal.max.object.bytes": "1024"}
    async with slow_world(store, {**settings, "wal.put.timeout.ms": "600000"}) as world:
        await world.create_topic("plain", 3)
        store.put_seconds = 500.0
        for _ in range(2):  # one object on its way, one full and waiting
            await world.connect().send(request("plain", 0, records_batch(bytes(2000))))
            await wait_all_tasks_blocked()
        started = trio.current_time()
        batches = [("plain", partition, records_batch(b"x")) for partition in range(3)]
        answer = await world.connect().call("Produce", 9, produce_request(batches))
        assert round(trio.current_time() - started) == 30
        codes = {each.partition_responses[0].error_code for each in answer.responses}
        assert codes == {E.NOT_ENOUGH_REPLICAS}
