"""The disk cache: what it keeps, which faults it survives, and what it never serves."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import trio
from crc32c import crc32c
from trio.testing import MockClock

from tests.worlds.disk_cache_world import (
    BLOCKS,
    BODY,
    LazySteps,
    files,
    found,
    offer,
    place,
    running,
    settled,
)
from tidegate_storage.disk.cache import RECENT_SECONDS
from tidegate_storage.disk.cache_files import BLOCK_BYTES, FOLDER, DamagedFile, parse_name
from tidegate_storage.disk.memory_disk import MemoryDisk, MemoryDiskSteps
from tidegate_storage.disk.queue import Offer
from tidegate_storage.stores.files.file_part import FileChanged, FilePart
from tidegate_storage.stores.files.real_disk import RealDisk, RealDiskSteps


async def test_a_part_is_found_until_the_cache_is_full() -> None:
    steps = MemoryDiskSteps()
    async with running(MemoryDisk(steps), 4 * BLOCKS * BLOCK_BYTES) as cache:
        for number in range(6):
            offer(cache, number)
            await settled(cache)
            used = sum(
                -(-each.size_bytes // BLOCK_BYTES) * BLOCK_BYTES for each in steps.scan(FOLDER)
            )
            assert used == cache.used_bytes <= 4 * BLOCKS * BLOCK_BYTES
        assert [await found(cache, number) for number in range(6)] == [None, None, *[BODY] * 4]
        assert (cache.counters.hits, cache.counters.misses, cache.counters.writes) == (4, 2, 6)


async def test_a_part_is_found_by_object_and_position() -> None:
    async with running(MemoryDisk(MemoryDiskSteps())) as cache:
        bodies = {number: bytes([number]) * 5000 for number in (0, 1, 10, 11)}
        for number, body in bodies.items():
            offer(cache, number, body)
        await settled(cache)
        assert {number: await found(cache, number) for number in bodies} == bodies


async def test_a_cache_finds_all_files_after_a_restart(autojump_clock: MockClock) -> None:
    steps = MemoryDiskSteps()
    async with running(MemoryDisk(steps)) as cache:
        for number in range(5):
            offer(cache, number, BODY[number:])
        await settled(cache)
    async with running(MemoryDisk(steps)) as cache:
        assert cache.used_bytes == 5 * BLOCKS * BLOCK_BYTES
        assert place(3) in cache
        assert place(7) not in cache
        for number in range(5):
            assert await found(cache, number) == BODY[number:]
    async with running(MemoryDisk(steps), 2 * BLOCKS * BLOCK_BYTES) as cache:
        assert len(files(steps)) == 2


async def test_a_start_removes_unfinished_files_and_no_foreign_ones() -> None:
    steps = MemoryDiskSteps()
    async with running(MemoryDisk(steps)) as cache:
        offer(cache, 1)
        offer(cache, 2)
        await settled(cache)
    torn, whole = files(steps)
    steps.cut_short(torn, 100)
    for name in (f"{whole}.tmp", f"{whole}.1f.tmp", f"{FOLDER}/notes.txt", f"{FOLDER}/lock.tmp"):
        steps.close(steps.open_new(name))
    steps.make_folder(f"{FOLDER}/mine")
    async with running(MemoryDisk(steps)) as cache:
        both = [await found(cache, number) for number in (1, 2)]
        assert sorted(each or b"" for each in both) == [b"", BODY]
        left = [whole, *(f"{FOLDER}/{name}" for name in ("notes.txt", "lock.tmp", "mine"))]
        assert files(steps) == sorted(left)
        assert cache.counters.damaged_files == 3


async def test_files_larger_than_a_lowered_bound_are_removed() -> None:
    steps = MemoryDiskSteps()
    async with running(MemoryDisk(steps)) as cache:
        offer(cache, 1)
        offer(cache, 2, bytes(100))
        await settled(cache)
    async with running(MemoryDisk(steps), BLOCK_BYTES) as cache:
        assert len(files(steps)) == 1
        assert await found(cache, 2) == bytes(100)


async def test_a_damaged_file_is_a_miss(autojump_clock: MockClock) -> None:
    random = Random(1)
    for number in range(50):
        steps = MemoryDiskSteps()
        async with running(MemoryDisk(steps)) as cache:
            offer(cache, 1)
            await settled(cache)
            [path] = files(steps)
            steps.flip_bit(path, random.randrange(len(BODY)))
            assert await found(cache, 1) is None
            assert (cache.counters.damaged_files, cache.used_bytes) == (1, 0)
            await settled(cache)
            assert not files(steps)
            offer(cache, 1)
            await settled(cache)
            assert await found(cache, 1) == BODY, number


async def test_a_file_after_a_power_cut_is_whole_or_a_miss() -> None:
    outcomes = set()
    for seed in range(60):
        steps = LazySteps(Random(seed))
        async with running(MemoryDisk(steps)) as cache:
            for number in range(4):
                offer(cache, number)
            await settled(cache)
        steps.power_cut(Random(seed))
        async with running(MemoryDisk(steps)) as cache:
            for number in range(4):
                outcomes.add(await found(cache, number))
            offer(cache, 9)
            await settled(cache)
            assert await found(cache, 9) == BODY
    assert outcomes == {None, BODY}


async def test_a_removed_file_or_folder_is_a_miss(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    async with running(RealDisk(RealDiskSteps(str(folder)))) as cache:
        await until(lambda: folder.is_dir())
        offer(cache, 1)
        offer(cache, 2)
        await until(lambda: cache.counters.writes == 2)
        read = await cache.read(place(1), bytes)
        assert read is not None
        shutil.rmtree(folder)
        assert read[0].is_ready()
        assert read[0].read() == BODY  # the file is open
        assert await found(cache, 2) is None
        assert (cache.counters.lost_files, cache.counters.failures) == (1, 0)
        offer(cache, 2)
        await until(lambda: cache.counters.writes == 3)
        assert await found(cache, 2) == BODY


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a thread makes the condition true."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - a thread changes it
            await trio.sleep(0.001)


async def test_a_cold_scan_does_not_evict_parts_in_use(autojump_clock: MockClock) -> None:
    async with running(MemoryDisk(MemoryDiskSteps()), 20 * BLOCKS * BLOCK_BYTES) as cache:
        for number in range(10):
            offer(cache, number)
        await settled(cache)
        await trio.sleep(RECENT_SECONDS + 1)
        assert [await found(cache, number) for number in range(10)] == [BODY] * 10
        for number in range(100, 400):
            offer(cache, number)
            await settled(cache)
            # right away: the use counts as the scan's own
            assert await found(cache, number) == BODY
        assert [await found(cache, number) for number in range(10)] == [BODY] * 10


async def test_a_held_file_part_outlives_its_eviction() -> None:
    parts: list[FilePart] = []
    dropped: list[str] = []
    async with running(MemoryDisk(MemoryDiskSteps()), BLOCKS * BLOCK_BYTES) as cache:
        first = Offer(place(1), BODY, crc32c(BODY), parts.append, lambda: dropped.append("1"))
        cache.offer(first)
        await settled(cache)
        offer(cache, 2)
        await settled(cache)
        assert dropped == ["1"]
        assert await found(cache, 1) is None
        assert parts[0].read() == BODY
        assert parts[0][10:20].read() == BODY[10:20]
        assert len(parts[0][10:20][2:]) == 8


async def test_a_file_that_another_program_wrote_to_is_dropped() -> None:
    steps = MemoryDiskSteps()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        async with running(MemoryDisk(steps)) as cache:
            for number, use in enumerate(("is_ready", "read", "send_to")):
                offer(cache, number)
                await settled(cache)
                read = await cache.read(place(number), bytes)
                assert read is not None
                [path] = files(steps)
                steps.cut_short(path, len(BODY) - 1)
                if use == "is_ready":
                    assert not read[0].is_ready()
                    assert await found(cache, number) is None
                elif use == "read":
                    with pytest.raises(FileChanged):
                        read[0].read()
                else:
                    with pytest.raises(FileChanged):
                        read[0].send_to(ours.fileno())
                assert cache.counters.damaged_files == number + 1
                assert place(number) not in cache
                await settled(cache)


async def test_a_reader_may_refuse_the_bytes_of_a_file() -> None:
    def refuse(body: memoryview) -> None:
        raise DamagedFile("not the index that was published")

    async with running(MemoryDisk(MemoryDiskSteps())) as cache:
        offer(cache, 1)
        await settled(cache)
        assert await cache.read(place(1), refuse) is None
        assert place(1) not in cache


def test_foreign_file_names_are_not_parsed() -> None:
    name = f"{'0' * 32}-2c-100-0000beef"
    assert parse_name(name) is not None
    for other in ("", "lock", name + "0", name[1:], name.upper(), name.replace("-", "_")):
        assert parse_name(other) is None
