"""The pipeline pauses a failing unit, longer each time, and works on the others."""

from __future__ import annotations

import trio.testing

from tests.fetch.test_fetch_segments import driver_of, read_all, segments_of, write_some
from tests.worlds.fetch_world import World, fetch_world
from tidegate_coordination.object_names.keys import object_key
from tidegate_pipeline.planning.limits import MergeSettings

# About five of write_some()'s batches make a segment.
SMALL = MergeSettings(rest_ms=0, patience_ms=0, segment_bytes=500, chunk_bytes=200)


def key_of_run(world: World, at: int) -> str:
    number = world.partition("t").runs[at].object_number
    return object_key(world.state, world.state.objects.name(number))


async def test_good_neighbours_of_a_stretch_that_failed_go_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 20, partitions=1)
        body = await world.store.get(key_of_run(world, 10))
        world.store.damage(key_of_run(world, 10), len(body) // 2)
        async with driver_of(world, SMALL) as driver:
            published = await driver.run_once()
            assert published > 2
            assert driver.counters.failed == 1

            await write_some(world, 20, partitions=1)
            assert await driver.run_once() > 2  # after the failed stretch, in the same partition
            assert driver.counters.failed == 1

            tried_at: list[float] = []
            began = trio.current_time()
            while len(tried_at) < 4:
                failed_before = driver.counters.failed
                await driver.run_once()
                if driver.counters.failed > failed_before:
                    tried_at.append(trio.current_time() - began)
                await trio.sleep(1)
            assert tried_at == [5, 15, 35, 75]

        await world.coordinator.catch_up()
        assert len(segments_of(world, "t")) > 5


async def test_a_mended_object_is_merged(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world() as [world]:
        await world.create("t", 1)
        await write_some(world, 3, partitions=1)
        key = key_of_run(world, 1)
        world.store.damage(key, 60)
        async with driver_of(world) as driver:
            assert await driver.run_once() == 0
            world.store.damage(key, 60)
            assert await driver.run_once() == 0
            await trio.sleep(5)
            assert await driver.run_once() == 1
        await world.coordinator.catch_up()
        assert [offset for offset, _ in await read_all(world, "t")] == list(range(6))
