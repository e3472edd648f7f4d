"""Segments on local disk: found after a restart, sent from there, and never wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.fetch.test_fetch_segments import merge
from tests.worlds.fetch_world import World, batch, fetch_world, records_of
from tests.worlds.inline_pool import inline_pool
from tidegate_gateway.fetch.prepared_runs import FileRun, PreparedRun
from tidegate_gateway.fetch.time_search import find_first, find_largest
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.disk.cache_files import FOLDER
from tidegate_storage.disk.memory_disk import MemoryDisk, MemoryDiskSteps

BATCHES = 12
BATCH_BYTES = 40_000
CHUNKS = 4
MERGE = MergeSettings(rest_ms=0, patience_ms=0, chunk_bytes=3 * BATCH_BYTES)


class Reader:
    """A reading gateway with a disk cache.  After a restart it has the same disk."""

    def __init__(self, world: World, disk: DiskCache) -> None:
        self.world = world
        self.disk = disk
        self.gets = 0

    async def read_all(self, **fields: int) -> list[tuple[int, str]]:
        self.world.store.reads.clear()
        offset = 0
        found: list[tuple[int, str]] = []
        while offset < BATCHES:
            data = await self.world.fetch("t", offset, **fields)
            assert data.error_code == 0
            found += [each for each in records_of(data) if offset <= each[0] < BATCHES]
            offset = found[-1][0] + 1
            await wait_all_tasks_blocked()
        self.gets = sum("/segments/" in key for key, _, _ in self.world.store.reads)
        return found

    async def in_memory(self) -> list[type]:
        """Return the type of each chunk's run in memory: with bytes, or of a file."""
        partition, reader = self.world.partition("t"), self.world.reader
        rows = await reader.parts(partition, partition.runs[0], 0)
        return [type(reader.ready(partition, row)) for row in rows]


VALUES = [chr(65 + number) * BATCH_BYTES for number in range(BATCHES)]
EXPECTED = list(enumerate(VALUES))


@asynccontextmanager
async def merged(*, is_cold: bool = True) -> AsyncIterator[World]:
    """A world with a segment of another gateway; after it a record, so that the segment is cold."""
    async with fetch_world() as [writer]:
        await writer.create("t", 1)
        for value in VALUES:
            await writer.write(("t", 0, batch(value)))
        await merge(writer, MERGE)
        if is_cold:
            await writer.write(("t", 0, batch("tail")))
        yield writer


@asynccontextmanager
async def life(
    writer: World,
    steps: MemoryDiskSteps,
    max_bytes: int = 1 << 24,
    cache_bytes: int = 1 << 24,
    max_open_files: int = 100,
) -> AsyncIterator[Reader]:
    disk = DiskCache(MemoryDisk(steps), max_bytes)
    world = World(writer.memory_log, writer.store, 9, writer.settings, cache_bytes, disk)
    world.reader._disk._max_open_files = max_open_files
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.coordinator.run)
        nursery.start_soon(disk.run)
        await world.register()
        await wait_all_tasks_blocked()
        yield Reader(world, disk)
        nursery.cancel_scope.cancel()


def files(steps: MemoryDiskSteps) -> list[str]:
    return sorted(
        (f"{FOLDER}/{entry.name}" for entry in steps.scan(FOLDER)),
        key=lambda path: int(path.split("-")[1], 16),
    )


async def test_a_range_that_was_read_cold_is_sent_from_disk() -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer, life(writer, steps) as reader:
        assert await reader.read_all() == EXPECTED
        assert reader.gets
        assert await reader.in_memory() == [FileRun] * CHUNKS
        assert len(files(steps)) == CHUNKS + 1  # and the index
        assert reader.world.cache.used_bytes < 2 * BATCH_BYTES
        assert await reader.read_all() == EXPECTED
        assert reader.gets == 0


async def test_a_restart_asks_the_store_for_nothing() -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer:
        async with life(writer, steps) as reader:
            await reader.read_all()
        async with life(writer, steps) as reader:
            assert await reader.read_all() == EXPECTED
            assert reader.gets == 0
            assert (reader.disk.counters.hits, reader.disk.counters.misses) == (CHUNKS + 1, 0)


async def test_small_pieces_of_a_file_are_whole(autojump_clock: MockClock) -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer, life(writer, steps) as reader:
        await reader.read_all()
        for offset in range(BATCHES):
            data = await reader.world.fetch("t", offset, partition_max=1)
            assert records_of(data) == [(offset, VALUES[offset])]
        assert await reader.read_all(partition_max=2 * BATCH_BYTES + 500) == EXPECTED
        assert reader.gets == 0


async def test_damage_and_loss_are_read_from_the_store(autojump_clock: MockClock) -> None:
    random = Random(1)
    async with merged() as writer:
        for number in range(30):
            steps = MemoryDiskSteps()
            async with life(writer, steps) as reader:
                await reader.read_all()
            path = random.choice(files(steps))
            harm = random.choice(("flip", "cut", "lose"))
            if harm == "flip":
                steps.flip_bit(path, random.randrange(len(steps.read(path, 0, None))))
            elif harm == "cut":
                steps.cut_short(path, random.randrange(len(steps.read(path, 0, None))))
            else:
                steps.remove(path)
            async with life(writer, steps) as reader:
                assert await reader.read_all() == EXPECTED, (number, harm)
                assert reader.gets == 1
                assert await reader.read_all() == EXPECTED
                assert reader.gets == 0


async def test_a_file_cut_in_use_is_read_from_the_store() -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer, life(writer, steps) as reader:
        await reader.read_all()
        steps.cut_short(files(steps)[1], 5)
        assert await reader.read_all() == EXPECTED
        assert reader.gets == 1
        assert reader.disk.counters.damaged_files == 1


async def test_a_hot_range_stays_in_memory() -> None:
    steps = MemoryDiskSteps()
    async with merged(is_cold=False) as writer, life(writer, steps) as reader:
        await reader.read_all()
        assert await reader.in_memory() == [*[FileRun] * (CHUNKS - 1), PreparedRun]
        assert len(files(steps)) == CHUNKS + 1


async def test_few_files_are_open_at_a_time() -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer, life(writer, steps, max_open_files=2) as reader:
        for _ in range(2):
            assert await reader.read_all() == EXPECTED
            kinds = await reader.in_memory()
            assert kinds.count(FileRun) == 2
        assert reader.gets == 0


async def test_slow_readers_do_not_keep_files_open_without_end() -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer, life(writer, steps, max_open_files=1) as reader:
        assert await reader.read_all() == EXPECTED
        partition = reader.world.partition("t")
        held: list[object] = []
        for _ in range(5):
            assert await reader.read_all() == EXPECTED
            for row in await reader.world.reader.parts(partition, partition.runs[0], 0):
                held.append(reader.world.reader.ready(partition, row))
            assert reader.disk.open_files <= 2
        assert reader.gets == 0
        held.clear()
        assert reader.disk.open_files <= 1


async def test_a_disk_too_small_for_a_segment_keeps_some_of_it() -> None:
    steps = MemoryDiskSteps()
    max_bytes = 7 * BATCH_BYTES  # two chunks, and the index
    async with merged() as writer, life(writer, steps, max_bytes=max_bytes) as reader:
        for _ in range(3):
            assert await reader.read_all() == EXPECTED
            assert reader.disk.used_bytes <= max_bytes
            assert 0 < len(files(steps)) <= 3
            assert 0 < (await reader.in_memory()).count(FileRun) <= 2


async def test_nothing_in_memory_and_all_on_disk(autojump_clock: MockClock) -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer, life(writer, steps, cache_bytes=0) as reader:
        await reader.read_all()
        assert await reader.read_all() == EXPECTED
        assert reader.gets == 0


async def test_times_are_found_in_files() -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer, life(writer, steps) as reader:
        log_reader, partition = reader.world.reader, reader.world.partition("t")
        await reader.read_all()
        found = await find_first(log_reader, inline_pool(), partition, 0, 5)
        assert found is not None
        assert found.offset == 5
        for path in files(steps):
            steps.remove(path)
        assert await find_first(log_reader, inline_pool(), partition, 0, 5) == found
        assert await find_largest(log_reader, inline_pool(), partition) is not None


async def test_a_file_that_is_being_sent_outlives_its_eviction() -> None:
    steps = MemoryDiskSteps()
    async with merged() as writer, life(writer, steps) as reader:
        await reader.read_all()
        partition = reader.world.partition("t")
        row = (await reader.world.reader.parts(partition, partition.runs[0], 0))[0]
        run = reader.world.reader.ready(partition, row)
        assert isinstance(run, FileRun)
        body = run.view.read()
        part = run.view[100:]
        reader.world.cache.evict(reader.world.reader._key(row))
        del run
        for path in files(steps):
            steps.remove(path)
        assert part.read() == body[100:]
