"""Fetches of merged records give the same answers as before, from segments."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count, pairwise
from random import Random

import pytest
import trio
import trio.testing

from tests.worlds.fetch_world import NOW_MS, World, batch, batches_of, fetch_world, records_of
from tests.worlds.inline_pool import inline_pool
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import RUN_SEGMENT
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.fetch.time_search import find_first, find_largest
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_pipeline.runners.local_runner import LocalRunner
from tidegate_protocol.error_codes import ErrorCode
from tidegate_storage.objects.segment_format import read_segment

AT_ONCE = MergeSettings(rest_ms=0, patience_ms=0, chunk_bytes=200)


@asynccontextmanager
async def driver_of(world: World, settings: MergeSettings = AT_ONCE) -> AsyncIterator[Driver]:
    """A pipeline beside a gateway, on the same log and store."""
    coordinator = Coordinator(
        world.memory_log, ClusterState(), rng=Random(7), wall_clock=lambda: world.now_ms / 1000
    )
    attempts = count(1)
    runner = LocalRunner(world.store, next_attempt=lambda: next(attempts))
    driver = Driver(coordinator, runner, settings, rng=Random(8), software_version="1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        await coordinator.catch_up()
        await driver.register()
        yield driver
        nursery.cancel_scope.cancel()


async def merge(world: World, settings: MergeSettings = AT_ONCE) -> Driver:
    async with driver_of(world, settings) as driver:
        while await driver.run_once():
            pass
    await world.coordinator.catch_up()
    return driver


async def read_all(world: World, name: str, partition: int = 0) -> list[tuple[int, str]]:
    """Read a partition to its end, a fetch at a time."""
    offset = world.partition(name, partition).log_start
    found: list[tuple[int, str]] = []
    while offset < world.partition(name, partition).next_offset:
        data = await world.fetch(name, offset, partition=partition, partition_max=300)
        assert data.error_code == 0
        got = [each for each in records_of(data) if each[0] >= offset]
        assert got, f"nothing at {offset}"
        found += got
        offset = got[-1][0] + 1
    return found


async def write_some(world: World, batches: int, name: str = "t", partitions: int = 2) -> None:
    for number in range(batches):
        await world.write(
            *[
                (name, partition, batch(f"{partition}-{number}a", f"{partition}-{number}b"))
                for partition in range(partitions)
            ]
        )


def segments_of(world: World, name: str, partition: int = 0) -> list[int]:
    """Return the object numbers of a partition's segments."""
    runs = world.partition(name, partition).runs
    rows = [runs[at] for at in range(len(runs))]
    return [row.object_number for row in rows if row.flags & RUN_SEGMENT]


async def test_merged_records_are_read_as_before() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 2)
        await write_some(world, 30)
        before = [await read_all(world, "t", partition) for partition in range(2)]
        objects = len(world.state.objects)

        driver = await merge(world)

        assert [await read_all(world, "t", partition) for partition in range(2)] == before
        assert [len(world.partition("t", each).runs) for each in range(2)] == [1, 1]
        assert (driver.counters.units, driver.counters.parents) == (2, 60)
        assert driver.counters.records == 120
        assert len(world.state.objects.dead) == objects


async def test_a_gateway_that_never_saw_the_segments_reads_them() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 20, partitions=1)
        expected = await read_all(world, "t")
        await merge(world)
        for key in [
            object_key(world.state, world.state.objects.name(number))
            for number in world.state.objects.dead
        ]:
            await world.store.delete_many([key])
        # The cache is too small to keep a run.
        world.cache = world.reader._cache = type(world.cache)(1)

        assert await read_all(world, "t") == expected


async def test_new_records_follow_and_segments_are_merged_again() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        for _ in range(4):
            await write_some(world, 5, partitions=1)
            await merge(world)
        await write_some(world, 3, partitions=1)

        found = await read_all(world, "t")

        assert [offset for offset, _ in found] == list(range(46))
        assert 0 < len(segments_of(world, "t")) <= 2


async def test_a_full_segment_is_not_merged_again() -> None:
    small = MergeSettings(rest_ms=0, patience_ms=0, segment_bytes=500, chunk_bytes=200)
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 40, partitions=1)
        first = await merge(world, small)
        numbers = segments_of(world, "t")
        await write_some(world, 4, partitions=1)
        await merge(world, small)

        assert first.counters.units > 5
        assert segments_of(world, "t")[: len(numbers) - 1] == numbers[:-1]
        assert [offset for offset, _ in await read_all(world, "t")] == list(range(88))


async def test_a_log_start_within_a_segment() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 10, partitions=1)
        await merge(world)
        await world.move_log_start("t", 0, 7)
        await write_some(world, 2, partitions=1)
        await merge(world)

        assert [offset for offset, _ in await read_all(world, "t")] == list(range(7, 24))
        assert (await world.fetch("t", 6)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("where", ["chunk", "index"])
async def test_a_damaged_segment_is_an_error_of_its_partition_only(where: str) -> None:
    async with fetch_world() as [world]:
        await world.create("t", 2)
        await write_some(world, 10)
        await merge(world)
        [number] = segments_of(world, "t", 0)
        key = object_key(world.state, world.state.objects.name(number))
        position = world.partition("t").runs[0].position
        world.store.damage(key, position + 9 if where == "index" else position - 9)

        last = await world.fetch("t", 19)

        assert last.error_code == ErrorCode.CORRUPT_MESSAGE
        assert [offset for offset, _ in await read_all(world, "t", 1)] == list(range(20))


async def test_a_missing_object_fails_its_unit_and_no_other() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await world.create("u", 1)
        await write_some(world, 3, "t", 1)
        await write_some(world, 3, "u", 1)
        lost = object_key(
            world.state,
            world.state.objects.name(world.partition("t").runs[1].object_number),
        )
        await world.store.delete_many([lost])

        async with driver_of(world) as driver:
            await driver.run_once()
        await world.coordinator.catch_up()

        assert (driver.counters.units, driver.counters.failed) == (1, 1)
        assert (len(segments_of(world, "t")), len(segments_of(world, "u"))) == (0, 1)


async def test_search_by_time_in_segments() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        for number in range(20):
            await world.write(("t", 0, batch("a", "b", timestamp=NOW_MS + 10 * number)))
        partition = world.partition("t")
        asked = [NOW_MS - 5, NOW_MS, NOW_MS + 1, NOW_MS + 2, NOW_MS + 95, NOW_MS + 191]
        blocking = inline_pool()
        before = [await find_first(world.reader, blocking, partition, at, 0) for at in asked]
        largest = await find_largest(world.reader, blocking, partition)

        await merge(world)

        found = [await find_first(world.reader, blocking, partition, at, 0) for at in asked]
        assert found == before
        assert await find_largest(world.reader, blocking, partition) == largest
        await world.move_log_start("t", 0, 39)
        assert await find_largest(world.reader, blocking, partition) == largest


async def test_a_consumer_that_is_behind_gets_the_next_chunks_read_ahead() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 50, partitions=1)
        await merge(world)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.read_ahead.run)
            await world.fetch("t", 0, partition_max=200)
            await trio.testing.wait_all_tasks_blocked()
            world.store.is_away = True

            data = await world.fetch("t", 4, partition_max=2000)

            assert data.error_code == 0
            assert len(records_of(data)) > 10
            nursery.cancel_scope.cancel()


async def test_segments_prove_what_they_hold() -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 10, partitions=1)
        await merge(world)
        [number] = segments_of(world, "t")
        body = await world.store.get(object_key(world.state, world.state.objects.name(number)))

        index = read_segment(body)

        assert (index.base_offset, index.next_offset) == (0, 20)
        assert sum(chunk.record_count for chunk in index.chunks) == 20
        assert len(index.chunks) > 2


async def test_a_fetch_does_not_wait_for_more_while_segments_are_still_to_be_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    small = MergeSettings(rest_ms=0, patience_ms=0, segment_bytes=400, chunk_bytes=200)
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 60, partitions=1)
        await merge(world, small)
        assert len(segments_of(world, "t")) > 10
        began = trio.current_time()

        data = await world.fetch("t", 0, min_bytes=4_500, max_wait_ms=5_000)

        assert trio.current_time() == began
        assert sum(map(len, batches_of(data))) >= 4_500


async def test_a_cold_scan_of_segments_leaves_the_hot_tail_in_memory() -> None:
    async with fetch_world(cache_bytes=20_000) as [world]:
        await world.create("old", 1)
        await write_some(world, 200, "old", 1)
        await merge(world)
        world.adopts = True
        await world.create("hot", 1)
        await write_some(world, 10, "hot", 1)
        hot = [world.partition("hot").runs[at] for at in range(10)]
        assert all(map(world.reader.is_in_memory, hot))

        assert len(await read_all(world, "old")) == 400

        assert all(map(world.reader.is_in_memory, hot))


async def write_over_80_seconds(world: World, *names: str) -> None:
    for number in range(40):
        stamped = batch("a", "b", timestamp=NOW_MS + 2000 * number)
        await world.write(*[(name, 0, stamped) for name in names])


async def test_segments_are_a_small_part_of_what_is_retained() -> None:
    finely = replace(AT_ONCE, least_kept_bytes=0, least_span_ms=0)
    async with fetch_world() as [world]:
        await world.create("by_size", 1, retention_bytes="8000")
        await world.create("by_time", 1, retention_ms="80000")
        await world.create("by_setting", 1, segment_bytes="1048576")
        await world.create("without", 1)
        names = ("by_size", "by_time", "by_setting", "without")
        await write_over_80_seconds(world, *names)

        await merge(world, finely)

        counts = {name: len(world.partition(name).runs) for name in names}
        assert counts == {"by_size": 4, "by_time": 8, "by_setting": 1, "without": 1}
        spans = world.partition("by_time").runs
        stamps = [spans[at].max_timestamp for at in range(len(spans))]
        assert all(later - earlier <= 10_001 for earlier, later in pairwise(stamps))


async def test_however_little_is_retained_a_segment_holds_some_runs() -> None:
    async with fetch_world() as [world]:
        await world.create("by_size", 1, retention_bytes="80")
        await world.create("by_time", 1, retention_ms="80")
        await write_over_80_seconds(world, "by_size", "by_time")

        await merge(world)

        counts = [len(world.partition(name).runs) for name in ("by_size", "by_time")]
        assert counts == [1, 2]  # a segment has at least a MiB, or a minute


async def test_a_merge_hides_no_growth_from_a_fetch_that_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 2, partitions=1)
        await world.fetch("t", 0)
        size = len(batch("0-0a", "0-0b"))
        answers: list[list[tuple[int, str]]] = []

        async def wait() -> None:
            data = await world.fetch("t", 2, min_bytes=3 * size, max_wait_ms=50_000)
            answers.append(records_of(data))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await write_some(world, 1, partitions=1)
            await merge(world)
            began = trio.current_time()
            await write_some(world, 1, partitions=1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.deadline = began + 1
        assert [offset for offset, _ in answers[0] if offset >= 2] == [2, 3, 4, 5, 6, 7]
