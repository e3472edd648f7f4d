"""Unnamed objects are deleted once no gateway can name them any more; all others stay."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tests.worlds.wire_client import WireWorld, records_batch, wire_world
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_storage.objects.keys import segment_key, wal_key
from tidegate_storage.stores.memory_store import MemoryObjectStore

CLUSTER = "cluster-of-tests"
TOPIC = b"t" * 16


async def write(world: WireWorld, *values: bytes) -> None:
    client = world.connect()
    for value in values:
        assert (await client.produce("t", 0, records_batch(value))).error_code == 0


async def keys(store: MemoryObjectStore) -> list[str]:
    return [each.key for each in await store.list(f"{CLUSTER}/")]


async def test_orphans_of_lives_that_ended_go_and_nothing_else() -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    mine = wal_key(CLUSTER, 1, "az1", 1, 1, 99)
    attempt = segment_key(CLUSTER, 1, TOPIC, 0, 0, 1, 5)
    elsewhere = wal_key(CLUSTER, 2, "az1", 1, 1, 99)
    unknown = wal_key(CLUSTER, 1, "az1", 1, 77, 0)
    async with wire_world(store=store, log=log) as world:
        await world.create_topic("t", 1)
        await write(world, b"a", b"b", b"c")
        for key in (mine, attempt, elsewhere, unknown):
            await store.put(key, b"left behind")
        before = await keys(store)
        assert await world.gateway.keepers.housekeeper.orphans.run_once() == 0
        assert await keys(store) == before

    async with wire_world(store=store, log=log) as world:
        await write(world, b"d")
        before = await keys(store)

        assert await world.gateway.keepers.housekeeper.orphans.run_once() == 2

        assert set(before) - set(await keys(store)) == {mine, attempt}
        values = await world.connect().fetch_values("t", 0, 0)
        assert values == [b"a", b"b", b"c", b"d"]
        assert world.gateway.keepers.housekeeper.orphans.deleted == 2


async def test_the_scan_is_part_of_keeping_house(autojump_clock: MockClock) -> None:
    store, log = MemoryObjectStore(), MemoryLog()
    orphan = wal_key(CLUSTER, 1, "az1", 1, 1, 99)
    async with wire_world(store=store, log=log):
        await store.put(orphan, b"left behind")
    settings = {"orphan.scan.interval.ms": "100000", "housekeeping.interval.ms": "10000"}
    async with wire_world(settings, store=store, log=log) as world:
        await trio.sleep(95)
        assert orphan in await keys(store)
        await trio.sleep(20)
        assert orphan not in await keys(store)
        await trio.sleep(100)
        assert world.gateway.keepers.housekeeper.orphans.scans == 2
