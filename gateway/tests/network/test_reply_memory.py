"""The memory of fetches is bounded for all connections together, and always released."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, cluster
from tests.worlds.fetch_world import World, batch, fetch_world, records_of
from tests.worlds.metrics_page import value_of
from tests.worlds.wire_client import records_batch, request_frame
from tidegate_gateway.network.arenas import LARGE_BYTES, Arena, ArenaPool
from tidegate_gateway.network.call import Peer
from tidegate_gateway.network.connection import SEND_TIMEOUT_SECONDS, Connection, fill
from tidegate_gateway.network.inflow import Inflow
from tidegate_gateway.network.memory_transport import (
    PIPE_BYTES,
    MemoryTransport,
    memory_transport_pair,
)
from tidegate_gateway.network.receiver import ConnectionLimits
from tidegate_gateway.network.reply_memory import MIN_BYTES, MIN_REPLY_BYTES, SHARES, ReplyMemory
from tidegate_protocol.frames import frame
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

PARTITIONS = 20
BATCH_BYTES = 1_000_000
MOST_BYTES = 100_000
REPLY_BYTES = 3 * PIPE_BYTES


def all_partitions(size: int = PARTITIONS, **fields: int) -> FetchRequest:
    asked = [FetchPartition(each, partition_max_bytes=1 << 20) for each in range(size)]
    topics = [FetchTopic("t", partitions=asked)]
    request = FetchRequest(min_bytes=1, max_bytes=50 << 20, session_epoch=-1, topics=topics)
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def with_records(answer: FetchResponse) -> int:
    return sum(bool(each.records) for each in answer.responses[0].partitions)


async def test_clients_that_read_nothing_do_not_fill_memory(autojump_clock: MockClock) -> None:
    async with cluster({"fetch.cache.bytes": str(8 << 20)}) as world:
        writer, reader = await world.start(1, Clock()), await world.start(2, Clock())
        await writer.world.create_topic("t", PARTITIONS)
        client = writer.world.connect()
        for each in range(PARTITIONS):
            answer = await client.produce("t", each, records_batch(bytes(BATCH_BYTES)))
            assert answer.error_code == 0
        memory = reader.gateway.reads.reply_memory
        silent = [reader.world.connect() for _ in range(30)]
        for number, one in enumerate(silent):
            await one.send(request_frame("Fetch", 12, all_partitions()))
            if number % 10 == 9:
                await trio.sleep(1)
        bound_bytes = MIN_BYTES + len(silent) * (BATCH_BYTES + MIN_REPLY_BYTES)
        assert MIN_BYTES // 2 < memory.used_bytes < bound_bytes
        assert value_of(reader.gateway, "tidegate_reply_bytes") == memory.used_bytes
        # Other fetches continue, with smaller replies.
        answer = await reader.world.connect().call("Fetch", 12, all_partitions())
        assert with_records(answer)
        for one in silent[:15]:
            await one.receive()
        for one in silent[15:20]:
            one.transport.close()
        await trio.sleep(SEND_TIMEOUT_SECONDS + 1)
        assert memory.used_bytes == 0


# -- fetches ---------------------------------------------------------------------------------------


async def written(world: World, partitions: int, batches: int = 1) -> None:
    await world.create("t", partitions)
    for each in range(partitions):
        for _ in range(batches):
            await world.write(("t", each, batch("x" * MOST_BYTES)))


async def test_without_room_there_is_one_batch_after_the_other() -> None:
    async with fetch_world(reply_bytes=0) as [world]:
        await written(world, 1, batches=3)
        found = [records_of(await world.fetch("t", offset)) for offset in range(3)]

    assert [[offset for offset, _ in each] for each in found] == [[0], [1], [2]]


async def test_no_more_is_loaded_than_reply_memory_allows() -> None:
    async with fetch_world(reply_bytes=0) as [world]:
        await written(world, 8)
        request = all_partitions(8)
        for each in request.topics[0].partitions:
            each.partition_max_bytes = 1
        await world.ask(request)

    assert len(world.store.reads) == 1


async def test_small_batches_come_together_even_then() -> None:
    async with fetch_world(reply_bytes=0) as [world]:
        await world.create("t")
        for _ in range(100):
            await world.write(("t", 0, batch("x" * 1000)))
        found = await world.fetch("t", 0)

    assert len(records_of(found)) == MIN_REPLY_BYTES // len(batch("x" * 1000))


async def test_a_reply_takes_a_share_of_what_is_left() -> None:
    room_bytes = 3 * MOST_BYTES
    async with fetch_world(reply_bytes=SHARES * room_bytes + 10_000) as [world]:
        await written(world, 8)
        first = await world.ask(all_partitions(8))
        world.reply_memory.used_bytes += SHARES * MOST_BYTES
        second = await world.ask(all_partitions(8))

    assert [with_records(answer) for answer in (first, second)] == [3, 2]


async def test_loading_ranges_count_as_reply_memory(autojump_clock: MockClock) -> None:
    async with fetch_world(reply_bytes=SHARES * 4 * MOST_BYTES) as [world]:
        await written(world, 8)
        world.cache.resize(0)
        world.store.seconds = 1.0
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(world.ask, all_partitions(8))
            await trio.sleep(0.5)
            most_bytes = SHARES * 4 * MOST_BYTES + 20 * 2 * MOST_BYTES
            assert SHARES * 2 * MOST_BYTES < world.reply_memory.used_bytes < most_bytes
            assert world.reply_memory.used_bytes < 20 * 4 * MOST_BYTES
        assert world.reply_memory.used_bytes == 0


@pytest.mark.parametrize("trouble", ["cancelled", "away"])
async def test_reply_memory_of_a_failed_load_is_released(
    trouble: str, autojump_clock: MockClock
) -> None:
    async with fetch_world() as [world]:
        await written(world, 8)
        world.store.seconds = 1.0
        world.store.is_away = trouble == "away"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.ask, all_partitions(8))
            await trio.sleep(0.5)
            assert world.reply_memory.used_bytes > 8 * MOST_BYTES
            if trouble == "cancelled":
                nursery.cancel_scope.cancel()
        assert world.reply_memory.used_bytes == 0


async def test_a_fetch_that_cannot_get_min_bytes_does_not_wait_for_them(
    autojump_clock: MockClock,
) -> None:
    async with fetch_world(reply_bytes=0) as [world]:
        await written(world, 4)
        began = trio.current_time()
        found = await world.ask(all_partitions(4, min_bytes=3 * MOST_BYTES, max_wait_ms=10_000))

    assert with_records(found) == 1
    assert trio.current_time() == began


async def test_a_waiting_fetch_holds_no_records(autojump_clock: MockClock) -> None:
    before = views_of_batches()  # views that earlier tests left
    async with fetch_world() as [world]:
        await written(world, 2)
        request = all_partitions(2, min_bytes=3 * MOST_BYTES, max_wait_ms=10_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.ask, request)
            await trio.sleep(1)
            world.cache.resize(0)
            assert len(world.waiters) == 2
            assert views_of_batches() == before
            world.cache.resize(64 << 20)
            nursery.start_soon(world.write, ("t", 1, batch("y" * MOST_BYTES)))
        assert trio.current_time() < 2  # the waiting fetch got all records


def views_of_batches() -> int:
    """Return the number of memoryviews of the size of one or two batches."""
    gc.collect()
    views = 0
    for each in gc.get_objects():
        if isinstance(each, memoryview):
            with suppress(ValueError):  # the view was released meanwhile
                views += MOST_BYTES <= each.nbytes <= 2 * MOST_BYTES
    return views


# -- connections -----------------------------------------------------------------------------------


class Large:
    """Answers each request with many bytes, but the first one only when the test says so."""

    def __init__(self) -> None:
        self.may_answer = trio.Event()
        self._is_first = True

    def handle_nowait(self, connection: Connection, frame: memoryview, arena: Arena) -> bool:
        slot = connection.open_slot()
        if self._is_first:
            self._is_first = False
            self.late = slot
        else:
            fill(slot, b"", [bytes(REPLY_BYTES)])
            connection.flush()
        return True

    async def handle(self, connection: Connection, frame: memoryview, arena: Arena) -> None:
        raise AssertionError


def received(client: MemoryTransport) -> int:
    buffer = memoryview(bytearray(REPLY_BYTES))
    return client.receive_nowait(buffer) or 0


@pytest.mark.parametrize("is_held", [False, True], ids=["unsent", "held"])
@pytest.mark.parametrize("way", ["reads", "reads not", "goes", "is aborted"])
async def test_replies_are_booked_and_given_back(
    way: str, is_held: bool, autojump_clock: MockClock
) -> None:
    client, server = memory_transport_pair()
    memory, pool, handler = ReplyMemory(1 << 30), ArenaPool(LARGE_BYTES), Large()
    peer = Peer("client", 1, "PLAINTEXT")
    connection = Connection(server, peer, pool, handler, ConnectionLimits(), Inflow(), memory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        client.send_nowait([frame(b"xx") * 2])
        await trio.sleep(1)
        assert REPLY_BYTES <= memory.used_bytes < REPLY_BYTES + 100
        if not is_held or way.startswith("reads"):
            fill(handler.late, b"", bytearray(4))
            connection.flush()
            assert REPLY_BYTES - PIPE_BYTES <= memory.used_bytes < REPLY_BYTES
        if way == "reads":
            while memory.used_bytes:
                before = memory.used_bytes
                with trio.fail_after(SEND_TIMEOUT_SECONDS):
                    await client.wait_receivable()
                assert received(client)
                await trio.sleep(0.1)
                assert memory.used_bytes < before
        elif way == "reads not":
            await trio.sleep(SEND_TIMEOUT_SECONDS + 1)
            assert memory.used_bytes == 0
        elif way == "goes":
            client.reset()
        else:
            connection.abort()
        await trio.sleep(1)
        assert memory.used_bytes == 0
        if handler.late.parts is None:
            fill(handler.late, b"", bytearray(4))  # Produce fills its slot late, too
            connection.flush()
            assert memory.used_bytes == 0
        nursery.cancel_scope.cancel()
