"""The sums in the store are the requests that the store saw, over restarts and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import joined
from tests.worlds.wire_client import NOW_MS, WireWorld, records_batch, wire_world
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.cost.reading import read_sums
from tidegate_storage.objects.cost_sums import OTHERS, PARTS, CostSums, merged
from tidegate_storage.objects.keys import cost_key, cost_prefix
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import (
    Buffer,
    ObjectInfo,
    StoreMisconfigured,
    StoreUnavailable,
)

CLUSTER = "cluster-of-tests"
INTERVAL = 600.0
SETTINGS = {"cost.interval.ms": "600000"}


class WatchedStore(MemoryObjectStore):
    """Counts the requests and bytes that reach it.  is_away: it refuses PUTs of sums."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW_MS / 1000 + trio.current_time())
        self.seen: Counter[str] = Counter()
        self.got_bytes = 0
        self.put_bytes = 0
        self.is_away = False

    async def put(self, key: str, body: Buffer) -> None:
        self.seen["put"] += 1
        if self.is_away and "/costs/" in key:
            raise StoreUnavailable("away")
        await super().put(key, body)
        self.put_bytes += len(body) * ("/wal/" in key)

    async def get(self, key: str) -> bytes:
        self.seen["get"] += 1
        return await super().get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        self.seen["get"] += 1
        body = await super().get_range(key, start, length)
        self.got_bytes += len(body)
        return body

    async def delete_many(self, keys: Sequence[str]) -> None:
        self.seen["delete"] += 1
        await super().delete_many(keys)

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        self.seen["list"] += 1
        return await super().list(prefix, start_after=start_after, limit=limit)


async def sums_in(store: WatchedStore) -> CostSums:
    """Read the sums, without counting these reads."""
    seen = Counter(store.seen)
    found = await read_sums(store, 0)
    store.seen = seen
    assert not found.unread
    return merged(found.each)


def assert_equal(sums: CostSums, store: WatchedStore) -> None:
    assert {kind: sums.count(kind) for kind in ("put", "get", "list", "delete")} == {
        kind: store.seen[kind] for kind in ("put", "get", "list", "delete")
    }
    of_wal = sums.requests["put wal"] * PARTS
    read = (sums.requests.get("get wal", 0) + sums.requests.get("get segments", 0)) * PARTS
    for uses in (sums.topics, sums.clients, sums.by_group()):
        assert sum(each.puts for each in uses.values()) == of_wal
        assert sum(each.gets for each in uses.values()) == read
        assert sum(each.put_bytes for each in uses.values()) == store.put_bytes
        assert sum(each.get_bytes for each in uses.values()) == store.got_bytes


async def write(world: WireWorld, client_id: str, topic: str, size: int, count: int = 3) -> None:
    client = world.connect()
    client.client_id = client_id
    for _ in range(count):
        answer = await client.produce(topic, 0, records_batch(b"v" * size))
        assert answer.error_code == 0


async def test_sums_of_all_lives_are_the_requests_of_the_store(autojump_clock: MockClock) -> None:
    store, log = WatchedStore(), MemoryLog()
    start = trio.current_time()
    async with wire_world(SETTINGS, store=store, log=log) as world:
        await world.create_topic("big", 1)
        await world.create_topic("small", 1)
        await write(world, "w1", "big", 50_000)
        await write(world, "w2", "small", 100)
        await trio.sleep(INTERVAL)
        await write(world, "w1", "big", 50_000)
        await world.gateway.drain()
    assert_equal(await sums_in(store), store)
    async with wire_world(SETTINGS, store=store, log=log, node_id=2, start=start) as world:
        reading = world.connect()
        reading.client_id = "r"
        await joined(reading, "readers", 10_000)
        assert len(await reading.fetch_values("big", 0, 0)) == 6
        assert len(await reading.fetch_values("small", 0, 0)) == 3
        await world.gateway.drain()

    sums = await sums_in(store)

    assert_equal(sums, store)
    assert sums.requests["put costs"] == 3
    assert sums.topics["big"].put_bytes > 9 * sums.topics["small"].put_bytes
    assert sums.clients["w1"].puts + sums.clients["w2"].puts == 9 * PARTS
    assert sums.clients["r"].gets == sums.by_group()["readers"].gets > 0
    assert sums.clients["r"].gets == sum(each.gets for each in sums.topics.values())
    assert sums.clients["w1"].unknown_bytes > 300_000
    assert sums.kept_bytes["big"] > 300_000
    assert sums.kept_byte_hours["big"] >= 150_000 * INTERVAL / 3600


async def test_kept_bytes_count_once_when_all_gateways_restart(autojump_clock: MockClock) -> None:
    """After each stop another gateway may become the housekeeper, and stop next."""
    store, log, start = WatchedStore(), MemoryLog(), trio.current_time()
    hourly = {"cost.interval.ms": "3600000"}
    async with (
        wire_world(hourly, store=store, log=log, start=start) as first,
        wire_world(hourly, store=store, log=log, seed=2, node_id=2, start=start) as second,
        wire_world(hourly, store=store, log=log, seed=3, node_id=3, start=start) as third,
    ):
        await first.create_topic("t", 1)
        await write(first, "w", "t", 10_000, count=1)
        await trio.sleep(1800)
        left = [each.gateway for each in (first, second, third)]
        while left:
            left.sort(key=lambda each: each.keepers.housekeeper.may_expire_here())
            await left.pop().drain()
            await trio.sleep(120)
    hours = (trio.current_time() - start) / 3600

    sums = await sums_in(store)

    assert sums.kept_bytes["t"] > 10_000
    counted = sums.kept_byte_hours["t"] / sums.kept_bytes["t"]
    assert 0.9 * hours < counted < 1.1 * hours


async def test_a_crash_loses_the_interval_that_had_not_ended(autojump_clock: MockClock) -> None:
    store, log = WatchedStore(), MemoryLog()
    async with wire_world(SETTINGS, store=store, log=log) as world:
        await world.create_topic("t", 1)
        await write(world, "w", "t", 10, count=5)
        await trio.sleep(INTERVAL + 1)
        await write(world, "w", "t", 10, count=2)

    sums = await sums_in(store)

    assert sums.clients["w"].puts == 5 * PARTS


async def test_sums_that_could_not_be_stored_are_stored_later(autojump_clock: MockClock) -> None:
    store, log = WatchedStore(), MemoryLog()
    async with wire_world(SETTINGS, store=store, log=log) as world:
        await world.create_topic("t", 1)
        await write(world, "w", "t", 10)
        store.is_away = True
        await trio.sleep(INTERVAL + 200)
        assert world.gateway.upkeep.failures["write what this gateway cost"] == 4
        store.is_away = False
        await write(world, "w", "t", 10)
        await world.gateway.drain()

    sums = await sums_in(store)

    assert_equal(sums, store)
    assert sums.requests["put costs"] == 4 + 2


async def test_old_sums_go_and_no_scan_takes_the_others(autojump_clock: MockClock) -> None:
    store, log = WatchedStore(), MemoryLog()
    old = cost_key(CLUSTER, 1, 2001010100, 1, 9, 1)
    foreign = f"{cost_prefix(CLUSTER, 1)}notes.txt"
    await store.put(old, b"")
    await store.put(foreign, b"")
    async with wire_world(SETTINGS, store=store, log=log) as world:
        await trio.sleep(2 * INTERVAL + 10)
        assert await world.gateway.keepers.housekeeper.orphans.run_once() == 0
        keys = [each.key for each in await store.list(cost_prefix(CLUSTER, 1))]
    assert old not in keys
    assert foreign in keys
    assert len(keys) == 3


async def test_a_prefix_without_a_cluster_is_said() -> None:
    with pytest.raises(StoreMisconfigured, match="give --object-store"):
        await read_sums(MemoryObjectStore(), 0)


async def test_what_cannot_be_read_is_named(autojump_clock: MockClock) -> None:
    store = WatchedStore()
    async with wire_world(store=store) as world:
        await world.gateway.drain()
    damaged = cost_key(CLUSTER, 1, 2999010100, 1, 1, 7)
    await store.put(damaged, b"noise")
    found = await read_sums(store, 0)
    assert found.unread == [damaged]
    assert [each.node_id for each in found.recent()] == [1]
    assert OTHERS not in merged(found.each).topics
