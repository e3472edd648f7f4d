"""The disk cache: writes, and failed writes."""

from __future__ import annotations

import errno

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.disk_cache_world import (
    BLOCKS,
    BODY,
    FailingDisk,
    HungDisk,
    SlowDisk,
    TroubledSteps,
    files,
    found,
    offer,
    place,
    running,
    settled,
)
from tidegate_storage.disk.cache import REST_SECONDS, STEP_SECONDS
from tidegate_storage.disk.cache_files import BLOCK_BYTES
from tidegate_storage.disk.memory_disk import MemoryDisk, MemoryDiskSteps
from tidegate_storage.disk.queue import BATCH_BYTES, BATCH_PARTS, MAX_QUEUED_BYTES
from tidegate_storage.disk.room import GIVE_WAY_SECONDS, RETRY_SECONDS
from tidegate_storage.stores.files.file_part import FileChanged


async def test_after_an_error_the_cache_rests(autojump_clock: MockClock) -> None:
    steps = TroubledSteps()
    async with running(MemoryDisk(steps)) as cache:
        offer(cache, 1)
        await settled(cache)
        for trouble in (errno.EROFS, errno.EIO, errno.EACCES):
            steps.trouble = trouble
            before = cache.counters.failures
            for number in range(2, 9):
                offer(cache, number)
                await settled(cache)
            assert cache.counters.failures == before + 1
            assert await found(cache, 1) == BODY
            assert len(files(steps)) == 1
            await trio.sleep(REST_SECONDS + 1)
        assert cache.counters.skipped_writes == 21
        steps.trouble = 0
        offer(cache, 2)
        await settled(cache)
        assert await found(cache, 2) == BODY


async def test_on_a_full_disk_the_cache_shrinks(autojump_clock: MockClock) -> None:
    steps = TroubledSteps()
    max_bytes = 21 * BLOCKS * BLOCK_BYTES
    async with running(MemoryDisk(steps), max_bytes) as cache:
        for number in range(20):
            offer(cache, number)
        await settled(cache)
        steps.trouble = errno.ENOSPC
        for left in (18, 15, 12):
            offer(cache, 100)
            await settled(cache)
            assert len(files(steps)) == left
            assert await found(cache, 19) == BODY
            await trio.sleep(REST_SECONDS + 1)
        steps.trouble = 0
        for number in range(200, 230):
            offer(cache, number)
        await settled(cache)
        assert len(files(steps)) == 12  # the freed room stays free for other programs
        await trio.sleep(GIVE_WAY_SECONDS)
        for number in range(300, 330):
            offer(cache, number)
        await settled(cache)
        assert len(files(steps)) == 21
        assert cache.used_bytes == max_bytes


async def test_a_file_that_cannot_be_removed_counts_against_the_bound(
    autojump_clock: MockClock,
) -> None:
    steps = TroubledSteps()
    max_bytes = 4 * BLOCKS * BLOCK_BYTES
    async with running(MemoryDisk(steps), max_bytes) as cache:
        offer(cache, 0)
        await settled(cache)
        steps.fixed.update(files(steps))
        for number in range(1, 20):
            offer(cache, number)
            await settled(cache)
            assert len(files(steps)) <= 5
        assert cache.counters.writes == 20
        assert len(files(steps)) == 4
        assert cache.used_bytes == max_bytes
        assert await found(cache, 19) == BODY
        steps.fixed.clear()
        await trio.sleep(RETRY_SECONDS + 1)
        for number in range(20, 24):
            offer(cache, number)
            await settled(cache)
        assert [await found(cache, number) for number in range(20, 24)] == [BODY] * 4
        offer(cache, 0)
        await settled(cache)
        assert await found(cache, 0) == BODY
        assert len(files(steps)) == 4


async def test_a_hanging_disk_delays_a_read_until_the_deadline(
    autojump_clock: MockClock,
) -> None:
    disk = SlowDisk(MemoryDiskSteps())
    async with running(disk) as cache:
        offer(cache, 1)
        await settled(cache)
        disk.seconds = 1000.0
        since = trio.current_time()
        for _ in range(20):
            assert await found(cache, 1) is None
        assert trio.current_time() - since == pytest.approx(STEP_SECONDS)
        assert place(1) not in cache
        disk.seconds = 0.0
        await trio.sleep(REST_SECONDS)
        assert await found(cache, 1) == BODY


async def test_an_error_that_is_not_the_files_evicts_no_file(autojump_clock: MockClock) -> None:
    troubles = [OSError(number, "trouble") for number in (errno.EMFILE, errno.ENOMEM, errno.EACCES)]
    for error in (*troubles, RuntimeError("can't start new thread"), MemoryError()):
        disk = FailingDisk(MemoryDiskSteps())
        async with running(disk) as cache:
            offer(cache, 1)
            await settled(cache)
            part = await cache.read(place(1), bytes)
            assert part is not None
            disk.error = error
            assert await found(cache, 1) is None
            with pytest.raises(FileChanged):
                await part[0].bring()
            offer(cache, 2)
            await settled(cache)
            assert cache.counters.skipped_writes == 1
            disk.error = None
            await trio.sleep(REST_SECONDS)
            assert await found(cache, 1) == BODY
            await part[0].bring()
            offer(cache, 2)
            await settled(cache)
            assert await found(cache, 2) == BODY
    for error in (OSError(errno.EIO, "bad sector"), FileNotFoundError(errno.ENOENT, "lost")):
        disk = FailingDisk(MemoryDiskSteps())
        async with running(disk) as cache:
            offer(cache, 1)
            await settled(cache)
            disk.error = error
            assert await found(cache, 1) is None
            assert place(1) not in cache


async def test_if_the_write_queue_is_full_parts_are_not_kept(autojump_clock: MockClock) -> None:
    disk = SlowDisk(MemoryDiskSteps())
    async with running(disk, 1 << 30) as cache:
        disk.seconds = 1.0
        body = bytes(8 << 20)
        for number in range(9):
            offer(cache, number, body)
            offer(cache, number, body)
        assert cache.counters.skipped_writes == 2 * (9 - MAX_QUEUED_BYTES // len(body))
        await trio.sleep(100)
        assert cache.counters.writes == MAX_QUEUED_BYTES // len(body)


async def test_queued_parts_are_written_in_one_batch(autojump_clock: MockClock) -> None:
    disk = SlowDisk(MemoryDiskSteps(clock=lambda: 0.0))
    async with running(disk, max_bytes=1 << 30) as cache:
        disk.seconds, body = STEP_SECONDS - 1, bytes(BATCH_BYTES // 4)
        for number in range(6):
            offer(cache, number, body)
        await settled(cache)
        # One batch for the first four parts, and one for the others.
        await trio.sleep(2 * disk.seconds + 1)
        assert cache.counters.writes == 6


async def test_if_a_batch_exceeds_the_bound_its_last_part_is_kept() -> None:
    steps = MemoryDiskSteps(clock=lambda: 0.0)
    async with running(MemoryDisk(steps), max_bytes=BLOCKS * BLOCK_BYTES) as cache:
        for number in range(4):
            offer(cache, number)
        await settled(cache)
        assert [await found(cache, number) for number in range(4)] == [None] * 3 + [BODY]
        assert cache.counters.skipped_writes == 3
        assert len(files(steps)) == 1
        assert cache.used_bytes == BLOCKS * BLOCK_BYTES


async def test_a_failed_batch_leaves_no_file(autojump_clock: MockClock) -> None:
    steps = TroubledSteps()
    async with running(MemoryDisk(steps)) as cache:
        offer(cache, 0)
        await settled(cache)
        for number in range(1, 4):
            offer(cache, number)
        steps.trouble, steps.writes_before = errno.EIO, 2
        await settled(cache)
        assert (cache.counters.writes, cache.counters.skipped_writes) == (1, 3)
        steps.trouble = 0
        await trio.sleep(REST_SECONDS)
        offer(cache, 4)
        await settled(cache)
        assert len(files(steps)) == 2  # the first part and the last one
        assert await found(cache, 2) is None


async def test_a_batch_of_small_parts_is_bounded_in_open_files(autojump_clock: MockClock) -> None:
    disk = SlowDisk(MemoryDiskSteps(clock=lambda: 0.0))
    async with running(disk) as cache:
        disk.seconds = 1.0
        for number in range(2 * BATCH_PARTS):
            offer(cache, number, b"small")
        await trio.sleep(1.5)
        assert cache.counters.writes == BATCH_PARTS
        await trio.sleep(1.0)
        assert cache.counters.writes == 2 * BATCH_PARTS


async def test_an_abandoned_thread_leaves_no_file(autojump_clock: MockClock) -> None:
    steps = MemoryDiskSteps(clock=lambda: 0.0)
    disk = HungDisk(steps)
    async with running(disk) as cache:
        disk.is_hanging = True
        for number in range(3):
            offer(cache, number)
        await trio.sleep(STEP_SECONDS + 1)
        disk.is_hanging = False
        assert cache.counters.skipped_writes == 3
        with pytest.raises(OSError, match="abandoned this write"):
            disk.left[0]()
        assert files(steps) == []
        assert cache.used_bytes == 0


async def test_a_file_whose_rename_fails_is_removed(autojump_clock: MockClock) -> None:
    steps = TroubledSteps()
    async with running(MemoryDisk(steps)) as cache:
        steps.has_no_names = True
        offer(cache, 0)
        await settled(cache)
        assert cache.counters.failures == 1
        assert files(steps) == []
