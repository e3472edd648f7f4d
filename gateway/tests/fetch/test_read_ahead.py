"""Consumers that lag find the next records in memory."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tests.worlds.fetch_world import World, batch, fetch_world
from tidegate_gateway.fetch.read_ahead import ReadAhead

RUNS = 6
SIZE = 1000


async def written(world: World) -> None:
    """Write several runs, each to another object.  None of them is in memory."""
    await world.create("t")
    for _ in range(RUNS):
        await world.write(("t", 0, batch("x" * SIZE)))


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def test_read_ahead_loads_the_ranges_after_a_fetch(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await written(world)
        world.read_ahead.want([(world.partition("t"), 2)])
        await settle()
        assert len(world.store.reads) == RUNS - 2
        rows = world.partition("t").runs
        in_memory = [world.reader.is_in_memory(rows[index]) for index in range(RUNS)]
        assert in_memory == [False, False, True, True, True, True]
        world.read_ahead.want([(world.partition("t"), 0)])
        await settle()
        assert len(world.store.reads) == RUNS
        nursery.cancel_scope.cancel()


async def test_nothing_is_loaded_twice_at_once(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await written(world)
        world.store.seconds = 1.0
        for _ in range(3):
            world.read_ahead.want([(world.partition("t"), 0)])
        await trio.sleep(100)
        assert len(world.store.reads) == RUNS
        nursery.cancel_scope.cancel()


async def test_the_wishes_of_read_ahead_are_bounded(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        ahead = ReadAhead(world.reader, max_bytes=3 * SIZE)
        nursery.start_soon(ahead.run)
        await written(world)
        ahead.want([(world.partition("t"), 0)])
        await settle()
        assert len(world.store.reads) == 2
        nursery.cancel_scope.cancel()


async def test_read_ahead_survives_a_store_that_is_away(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await written(world)
        world.store.is_away = True
        world.read_ahead.want([(world.partition("t"), 0)])
        await settle()
        world.store.is_away = False
        world.read_ahead.want([(world.partition("t"), 0)])
        await settle()
        rows = world.partition("t").runs
        assert all(world.reader.is_in_memory(rows[index]) for index in range(RUNS))
        nursery.cancel_scope.cancel()
