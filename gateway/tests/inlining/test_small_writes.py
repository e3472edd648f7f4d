"""Small writes: acknowledged by the metadata log alone, read by all, and moved to the store."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import WireWorld, records_batch, wire_world
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.records import inlining
from tidegate_coordination.state.records.inlined import InlinedObjects
from tidegate_protocol.messages import delete_topics as dt
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer

ON = {"wal.inline.max.bytes": "65536"}


class SlowStore(MemoryObjectStore):
    """Each PUT of a WAL object takes 100 ms.  puts: their keys."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []

    async def put(self, key: str, body: Buffer) -> None:
        if "/wal/" in key:
            self.puts.append(key)
            await trio.sleep(0.1)
        await super().put(key, body)


def inlined(world: WireWorld) -> InlinedObjects:
    return world.gateway.coordinator.state.objects.inlined


async def fill(world: WireWorld, count: int) -> list[bytes]:
    client = world.connect()
    values = [b"%d" % each for each in range(count)]
    for at, each in enumerate(values):
        answer = await client.produce("t", 0, records_batch(each))
        assert (answer.error_code, answer.base_offset) == (0, at)
    return values


async def test_a_small_write_waits_for_no_put(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with wire_world(ON, store=store) as world:
        await world.create_topic("t", 1)
        began = trio.current_time()
        values = await fill(world, 20)
        assert trio.current_time() - began < 0.1
        assert not store.puts
        assert len(inlined(world)) == 20
        assert await world.connect().fetch_values("t", 0, 0) == values


async def test_small_writes_are_moved_in_one_object(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with wire_world(ON, store=store) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 20)
        await trio.sleep(15)
        assert len(store.puts) == 1
        state = world.gateway.coordinator.state
        assert (len(inlined(world)), inlined(world).size_bytes) == (0, 0)
        [partition] = state.partitions.values()
        assert len(partition.runs) == 1
        assert await world.connect().fetch_values("t", 0, 0) == values
        assert (await world.connect().produce("t", 0, records_batch(b"x"))).base_offset == 20


@pytest.mark.parametrize("has_snapshot", [False, True])
async def test_a_gateway_that_starts_reads_them_from_the_log(
    autojump_clock: MockClock, has_snapshot: bool
) -> None:
    store, log = SlowStore(), MemoryLog()
    async with wire_world(ON, store=store, log=log) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 5)
        if has_snapshot:
            await world.gateway.keepers.housekeeper.take_snapshot()
    async with wire_world(ON, store=store, log=log) as world:
        assert inlined(world)
        assert await world.connect().fetch_values("t", 0, 0) == values
        assert not store.puts


async def test_the_writes_of_an_ended_gateway_are_moved(autojump_clock: MockClock) -> None:
    store, log = SlowStore(), MemoryLog()
    async with wire_world(ON, store=store, log=log) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 5)
    async with wire_world({}, store=store, log=log) as world:
        await trio.sleep(600)
        assert not inlined(world)
        assert await world.connect().fetch_values("t", 0, 0) == values


async def test_large_and_small_writes_keep_their_order(autojump_clock: MockClock) -> None:
    store = SlowStore()
    values = [b"%d" % each * (80_000 if each % 3 == 0 else 1) for each in range(12)]
    async with wire_world(ON, store=store) as world:
        await world.create_topic("t", 1)

        async def write(value: bytes) -> None:
            answer = await world.connect().produce("t", 0, records_batch(value))
            assert (answer.error_code, answer.base_offset) == (0, values.index(value))

        async with trio.open_nursery() as nursery:
            for each in values:
                nursery.start_soon(write, each)
                await trio.sleep(0.01)
        assert await world.connect().fetch_values("t", 0, 0) == values
        assert store.puts


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log takes none, though the writer has seen that it would."""
    monkeypatch.setattr(inlining, "may_inline", lambda *_: False)


@pytest.mark.usefixtures("refusing")
async def test_what_the_log_does_not_take_is_stored(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with wire_world(ON, store=store) as world:
        await world.create_topic("t", 1)
        values = await fill(world, 3)
        assert len(store.puts) == 3
        assert not inlined(world)
        assert await world.connect().fetch_values("t", 0, 0) == values


async def test_the_records_of_a_deleted_topic_are_not_moved(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with wire_world(ON, store=store) as world:
        await world.create_topic("t", 1)
        await fill(world, 3)
        request = dt.DeleteTopicsRequest([dt.DeleteTopicState("t")], timeout_ms=1000)
        await world.connect().call("DeleteTopics", 6, request)
        await trio.sleep(15)
        assert not store.puts
        assert not inlined(world)
