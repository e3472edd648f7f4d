"""The number of GETs of cold reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fetch.test_fetch_segments import merge
from tests.worlds.fetch_world import World, batch, fetch_world
from tidegate_gateway.fetch import read_ahead
from tidegate_gateway.fetch.read_ahead import CHUNKS_BYTES
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_protocol.messages.fetch import PartitionData
from tidegate_protocol.records import walk

MIB = 1 << 20
MERGE = MergeSettings(rest_ms=0, patience_ms=0)


async def write_segment(
    world: World, mebibytes: float, name: str = "t", settings: MergeSettings = MERGE
) -> None:
    """Write a segment of a size, with no chunk in memory, and a record after it."""
    if name not in world.state.topics.by_name:
        await world.create(name, 1)
    half = "x" * (MIB // 2)
    for number in range(int(2 * mebibytes)):
        await world.write((name, 0, batch(f"{number}{half}")))
    await merge(world, settings)
    await world.write((name, 0, batch("tail")))
    world.store.reads.clear()


def next_offset(data: PartitionData, offset: int) -> int:
    assert data.error_code == 0
    assert isinstance(data.records, bytes | memoryview)
    found = [header for _, header in walk(memoryview(data.records))]
    assert found[0].base_offset == offset
    assert all(one.last_offset + 1 == other.base_offset for one, other in pairwise(found))
    return found[-1].last_offset + 1


async def read_through(world: World, name: str = "t") -> None:
    offset, end = 0, world.partition(name).next_offset
    while offset < end:
        offset = next_offset(await world.fetch(name, offset, partition_max=MIB), offset)
        await trio.sleep(0.001)  # the time to the client and back


def gets(world: World) -> Counter[str]:
    return Counter(key for key, _, _ in world.store.reads if "/segments/" in key)


async def test_a_sequential_reader_of_a_large_segment(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await write_segment(world, 40)
        world.store.seconds = 0.05
        await read_through(world)
        [(key, count)] = gets(world).items()
        sizes = [length for each, _, length in world.store.reads if each == key]
        # GETs for the index, for the first fetch, and then for seven or eight chunks each.
        assert count <= 2 + 40 // 7 + 1
        assert max(sizes) <= CHUNKS_BYTES
        assert sum(sizes) < 41 * MIB
        nursery.cancel_scope.cancel()


async def test_fifty_readers_of_a_cold_partition_share_each_get(
    autojump_clock: MockClock,
) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await write_segment(world, 24)
        world.store.seconds = 0.05
        random = Random(1)

        async def late_reader() -> None:
            await trio.sleep(random.random() * 0.5)
            await read_through(world)

        async with trio.open_nursery() as readers:
            for _ in range(50):
                readers.start_soon(late_reader)
        [count] = gets(world).values()
        assert count <= 2 + 24 // 7 + 2
        whole = sum(length for key, _, length in world.store.reads if "/segments/" in key)
        assert whole < 25 * MIB
        nursery.cancel_scope.cancel()


async def test_a_small_segment_comes_whole_with_its_index(autojump_clock: MockClock) -> None:
    async with fetch_world(cache_bytes=256 * MIB) as [world]:
        await write_segment(world, 0.5)
        await read_through(world)
        assert list(gets(world).values()) == [1]


async def test_cold_segments_bring_no_more_than_is_wanted(autojump_clock: MockClock) -> None:
    names = [f"t{number}" for number in range(12)]
    async with fetch_world(cache_bytes=64 * MIB) as [world]:
        for name in names:
            await write_segment(world, 6, name)
        world.store.reads.clear()
        for name in names:
            next_offset(await world.fetch(name, 0, partition_max=MIB), 0)
        assert sum(length for _, _, length in world.store.reads) < len(names) * 2 * MIB


async def test_where_memory_is_scarce_a_segment_does_not_come_whole() -> None:
    async with fetch_world(cache_bytes=2 * MIB) as [world]:
        await write_segment(world, 0.5)
        partition = world.partition("t")
        await world.reader.parts(partition, partition.runs[0], 0)
        [(_, _, length)] = world.store.reads
        assert length < 10_000


async def test_many_cold_partitions_are_read_ahead_less_far() -> None:
    async with fetch_world() as [world]:
        ahead = read_ahead.ReadAhead(world.reader, max_bytes=1 << 30, room_bytes=20 * MIB)
        for name in "abcde":
            await write_segment(world, 12, name)
            partition = world.partition(name)
            await world.reader.parts(partition, partition.runs[0], 0)
            before = ahead._pending_bytes
            ahead.want([(partition, 0)])
            wanted = (ahead._pending_bytes - before) / MIB
            assert wanted == pytest.approx({"a": 8, "b": 8, "c": 6, "d": 5, "e": 4}[name], abs=1.01)


async def test_nothing_is_wanted_while_enough_is_there() -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await write_segment(world, 20)
        partition = world.partition("t")
        await world.reader.parts(partition, partition.runs[0], 0)
        world.store.reads.clear()
        for offset, expected in ((0, 1), (2, 1), (6, 1), (12, 2), (14, 2)):
            world.read_ahead.want([(partition, offset)])
            await wait_all_tasks_blocked()
            assert len(world.store.reads) == expected, offset
        nursery.cancel_scope.cancel()


async def test_partitions_share_the_gets_of_one_object(
    autojump_clock: MockClock,
) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("t", 3)
        for _ in range(2):
            await world.write(*(("t", index, batch("x" * 1000)) for index in range(3)))
        # No run is loaded yet, so each run is wanted separately.
        for index in range(3):
            world.read_ahead.want([(world.partition("t", index), 0)])
        nursery.start_soon(world.read_ahead.run)
        await wait_all_tasks_blocked()
        assert len(world.store.reads) == 2
        assert world.read_ahead._pending_bytes == 0
        nursery.cancel_scope.cancel()


async def test_a_fetch_takes_along_what_waits(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world]:
        await write_segment(world, 6)
        partition = world.partition("t")
        await world.reader.parts(partition, partition.runs[0], 0)
        world.store.reads.clear()
        world.read_ahead.want([(partition, 0)])
        wanted = len(world.read_ahead._pending)
        next_offset(await world.fetch("t", 0, partition_max=MIB), 0)
        [(_, _, length)] = world.store.reads
        assert length > 5 * MIB
        # The taken runs are settled, and no longer wanted.
        assert wanted > 1
        assert not world.read_ahead._pending
        assert world.read_ahead._pending_bytes == 0
        await read_through(world)
        assert len(gets(world)) == 1


async def test_a_waiting_fetch_examines_each_run_of_an_object_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fetch_world() as [world]:
        await write_segment(world, 7)
        partition = world.partition("t")
        await world.reader.parts(partition, partition.runs[0], 0)
        looked_at: list[int] = []
        rows_along = world.reader.rows_along

        def note(misses: Any, others: Any) -> Any:
            looked_at.append(len(others))
            return rows_along(misses, others)

        monkeypatch.setattr(world.reader, "rows_along", note)
        world.read_ahead.want([(partition, 0)])
        waiting = len(world.read_ahead._pending)
        next_offset(await world.fetch("t", 0, partition_max=3 * MIB), 0)
        [count] = looked_at
        assert 0 < count < waiting


async def test_a_fetch_that_is_given_up_settles_what_it_took(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await write_segment(world, 6)
        partition = world.partition("t")
        await world.reader.parts(partition, partition.runs[0], 0)
        world.read_ahead.want([(partition, 0)])
        world.store.seconds = 1.0
        with trio.move_on_after(0.5) as scope:
            await world.fetch("t", 0, partition_max=MIB)
        assert scope.cancelled_caught
        assert not world.read_ahead._pending
        assert world.read_ahead._pending_bytes == 0
        nursery.start_soon(world.read_ahead.run)
        await read_through(world)
        nursery.cancel_scope.cancel()


async def test_the_next_segment_comes_whole_where_there_is_room(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await write_segment(world, 24, settings=replace(MERGE, segment_bytes=6 * MIB))
        world.store.seconds = 0.01
        await read_through(world)
        counts = sorted(gets(world).values())
        # The first segment takes three GETs: for its index, a chunk, and the others.
        assert (counts[:-1], counts[-1] <= 3) == ([1] * (len(counts) - 1), True)
        assert len(counts) > 1
        nursery.cancel_scope.cancel()


async def test_the_next_segment_does_not_come_whole_where_many_are_read(
    autojump_clock: MockClock,
) -> None:
    async with fetch_world() as [world]:
        ahead = read_ahead.ReadAhead(world.reader, room_bytes=4 * MIB)
        await write_segment(world, 6)
        ahead.want([(world.partition("t"), 0)])
        assert ahead._pending_bytes < MIB


@pytest.mark.parametrize("is_segment", [True, False])
async def test_a_fetch_waits_for_no_get_but_its_own(
    is_segment: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fetch_world(cache_bytes=256 * MIB) as [world]:
        if is_segment:
            await write_segment(world, 40)
            far = (world.partition("t"), 40)
            await world.reader.parts(far[0], far[0].runs[0], 0)
        else:
            await world.create("t", 3)
            await world.write(*(("t", index, batch("x" * MIB)) for index in range(3)))
            far = (world.partition("t", 2), 0)
        get_range = world.store.get_range

        async def hang_far_off(key: str, start: int, length: int) -> bytes:
            await trio.sleep(1e9 if start > MIB else 0.03)
            return await get_range(key, start, length)

        monkeypatch.setattr(world.store, "get_range", hang_far_off)
        world.read_ahead.want([far])
        waiting = set(world.read_ahead._pending)
        begun = trio.current_time()
        next_offset(await world.fetch("t", 0, partition_max=MIB), 0)
        assert trio.current_time() - begun < 0.1
        # The reader of the far run still wants it.
        assert waiting
        assert waiting <= world.read_ahead._pending


async def test_where_a_whole_segment_has_no_room_its_index_is_wanted() -> None:
    async with fetch_world() as [world]:
        await write_segment(world, 7)
        ahead = read_ahead.ReadAhead(world.reader, max_bytes=4 * MIB)
        ahead.want([(world.partition("t"), 0)])
        assert 0 < ahead._pending_bytes < MIB


async def test_segments_wanted_whole_are_no_more_than_there_is_room_for() -> None:
    async with fetch_world() as [world]:
        await write_segment(world, 24, settings=replace(MERGE, segment_bytes=3 * MIB))
        ahead = read_ahead.ReadAhead(world.reader, room_bytes=4 * MIB)
        ahead.want([(world.partition("t"), 0)])
        assert MIB < ahead._pending_bytes < 4 * MIB


async def test_a_fetch_in_the_middle_of_a_segment_reads_its_index(
    autojump_clock: MockClock,
) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await write_segment(world, 7.5)
        nursery.start_soon(world.read_ahead.run)
        partition = world.partition("t")
        world.read_ahead.want([(partition, partition.runs[0].next_offset - 1)])
        await wait_all_tasks_blocked()
        assert sum(length for key, _, length in world.store.reads if key in gets(world)) < MIB
        nursery.cancel_scope.cancel()


async def test_a_segment_wanted_whole_comes_whole_when_a_fetch_asks_for_its_index(
    autojump_clock: MockClock,
) -> None:
    async with fetch_world() as [world]:
        await write_segment(world, 7)
        world.read_ahead.want([(world.partition("t"), 0)])
        next_offset(await world.fetch("t", 0, partition_max=MIB), 0)
        assert list(gets(world).values()) == [1]
        assert not world.read_ahead._pending
        assert world.read_ahead._pending_bytes == 0
