"""The disk cache: what it keeps, what it survives, and what it never serves."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
import trio
from crc32c import crc32c
from trio.testing import MockClock, wait_all_tasks_blocked

from tidegate_storage.cache_files import (
    BLOCK_BYTES,
    FOLDER,
    DamagedFile,
    Place,
    parse_name,
)
from tidegate_storage.disk import Disk, DiskSteps
from tidegate_storage.disk_cache import RECENT_SECONDS, REST_SECONDS, STEP_SECONDS, DiskCache
from tidegate_storage.disk_queue import BATCH_BYTES, BATCH_PARTS, MAX_QUEUED_BYTES, Offer
from tidegate_storage.disk_room import GIVE_WAY_SECONDS, RETRY_SECONDS
from tidegate_storage.file_part import FileChanged, FilePart
from tidegate_storage.memory_disk import MemoryDisk, MemoryDiskSteps
from tidegate_storage.object_store import Buffer
from tidegate_storage.real_disk import RealDisk, RealDiskSteps

T = TypeVar("T")

BODY = bytes(range(256)) * 40
BLOCKS = 3  # of BODY


class TroubledSteps(MemoryDiskSteps):
    """A disk with one trouble at a time."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)
        self.trouble = 0
        self.writes_before = 0  # so many are well yet
        self.has_no_names = False
        self.fixed: set[str] = set()  # paths that cannot be removed

    def write(self, handle: int, body: Buffer) -> None:
        self.writes_before -= 1
        if self.trouble and self.writes_before < 0:
            super().write(handle, bytes(body[: len(body) // 2]))
            raise OSError(self.trouble, os.strerror(self.trouble))
        super().write(handle, body)

    def rename(self, source: str, target: str) -> None:
        if self.has_no_names:
            raise OSError(errno.ENOSPC, "the folder cannot grow")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        if path in self.fixed:
            raise PermissionError(errno.EPERM, "immutable")
        super().remove(path)


class LazySteps(MemoryDiskSteps):
    """Now and then a kernel writes by itself what nobody told it to."""

    def __init__(self, random: Random) -> None:
        super().__init__(clock=lambda: 0.0)
        self._random = random

    def close(self, handle: int) -> None:
        if self._random.random() < 0.5:
            self.sync_file(handle)
        super().close(handle)


class FailingDisk(MemoryDisk):
    """Does not get so far as to take a step."""

    def __init__(self, steps: DiskSteps) -> None:
        super().__init__(steps)
        self.error: Exception | None = None

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        if self.error is not None:
            raise self.error
        return await super().run(recipe)


class SlowDisk(MemoryDisk):
    """Hangs while told to."""

    def __init__(self, steps: DiskSteps) -> None:
        super().__init__(steps)
        self.seconds = 0.0

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        await trio.sleep(self.seconds)
        return await super().run(recipe)


class HungDisk(MemoryDisk):
    """Keeps what it is told to do for later, as a thread may that nobody waits for."""

    def __init__(self, steps: DiskSteps) -> None:
        super().__init__(steps)
        self.is_hanging = False
        self.left: list[Callable[[], object]] = []
        self._own = steps

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        if self.is_hanging:
            self.left.append(lambda: recipe(self._own))
            await trio.sleep_forever()
        return await super().run(recipe)


@asynccontextmanager
async def running(disk: Disk, max_bytes: int = 1 << 20) -> AsyncIterator[DiskCache]:
    cache = DiskCache(disk, max_bytes)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.run)
        await settled(cache)
        yield cache
        nursery.cancel_scope.cancel()


async def settled(cache: DiskCache) -> None:
    """Wait until everything that was offered is written, or not."""
    await wait_all_tasks_blocked(0.0)


def place(number: int) -> Place:
    return Place(f"object-{number // 10}", number % 10)


def offer(cache: DiskCache, number: int, body: bytes = BODY) -> None:
    cache.offer(Offer(place(number), body, crc32c(body)))


async def found(cache: DiskCache, number: int) -> bytes | None:
    read = await cache.read(place(number), bytes)
    if read is None:
        return None
    part, body = read
    assert part.read() == body
    return body


def files(steps: DiskSteps) -> list[str]:
    return sorted(f"{FOLDER}/{entry.name}" for entry in steps.scan(FOLDER))


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


async def test_objects_and_positions_are_told_apart() -> None:
    async with running(MemoryDisk(MemoryDiskSteps())) as cache:
        bodies = {number: bytes([number]) * 5000 for number in (0, 1, 10, 11)}
        for number, body in bodies.items():
            offer(cache, number, body)
        await settled(cache)
        assert {number: await found(cache, number) for number in bodies} == bodies


async def test_a_restart_finds_everything(autojump_clock: MockClock) -> None:
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


async def test_what_a_crash_left_is_swept_and_the_files_of_others_are_not() -> None:
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


async def test_damage_is_a_miss(autojump_clock: MockClock) -> None:
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


async def test_what_a_power_cut_left_is_whole_or_a_miss() -> None:
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


async def test_files_and_the_folder_may_go_at_any_time(tmp_path: Path) -> None:
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
        assert read[0].read() == BODY  # it is open
        assert await found(cache, 2) is None
        assert (cache.counters.lost_files, cache.counters.failures) == (1, 0)
        offer(cache, 2)
        await until(lambda: cache.counters.writes == 3)
        assert await found(cache, 2) == BODY


async def until(condition: Callable[[], bool]) -> None:
    """For what threads do."""
    with trio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - a thread changes it
            await trio.sleep(0.001)


async def test_a_broken_disk_is_left_alone_for_a_while(autojump_clock: MockClock) -> None:
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


async def test_on_a_full_disk_the_cache_gives_way(autojump_clock: MockClock) -> None:
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
        assert len(files(steps)) == 12  # others shall have the room
        await trio.sleep(GIVE_WAY_SECONDS)
        for number in range(300, 330):
            offer(cache, number)
        await settled(cache)
        assert len(files(steps)) == 21
        assert cache.used_bytes == max_bytes


async def test_a_file_that_cannot_be_removed_counts(autojump_clock: MockClock) -> None:
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


async def test_a_disk_that_hangs_holds_up_nobody_for_long(autojump_clock: MockClock) -> None:
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


async def test_what_is_not_the_files_fault_costs_no_file(autojump_clock: MockClock) -> None:
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


async def test_when_the_writer_is_behind_parts_are_not_kept(autojump_clock: MockClock) -> None:
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


async def test_parts_that_wait_are_written_in_one_go(autojump_clock: MockClock) -> None:
    disk = SlowDisk(MemoryDiskSteps(clock=lambda: 0.0))
    async with running(disk, max_bytes=1 << 30) as cache:
        disk.seconds, body = STEP_SECONDS - 1, bytes(BATCH_BYTES // 4)
        for number in range(6):
            offer(cache, number, body)
        await settled(cache)
        # One go for the first four of them, and one for the rest.
        await trio.sleep(2 * disk.seconds + 1)
        assert cache.counters.writes == 6


async def test_of_parts_that_do_not_fit_together_the_last_is_kept() -> None:
    steps = MemoryDiskSteps(clock=lambda: 0.0)
    async with running(MemoryDisk(steps), max_bytes=BLOCKS * BLOCK_BYTES) as cache:
        for number in range(4):
            offer(cache, number)
        await settled(cache)
        assert [await found(cache, number) for number in range(4)] == [None] * 3 + [BODY]
        assert cache.counters.skipped_writes == 3
        assert len(files(steps)) == 1
        assert cache.used_bytes == BLOCKS * BLOCK_BYTES


async def test_of_parts_in_one_go_that_fail_none_is_left(autojump_clock: MockClock) -> None:
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
        assert len(files(steps)) == 2  # the first and the last
        assert await found(cache, 2) is None


async def test_of_many_small_parts_only_so_many_are_open_at_once(autojump_clock: MockClock) -> None:
    disk = SlowDisk(MemoryDiskSteps(clock=lambda: 0.0))
    async with running(disk) as cache:
        disk.seconds = 1.0
        for number in range(2 * BATCH_PARTS):
            offer(cache, number, b"small")
        await trio.sleep(1.5)
        assert cache.counters.writes == BATCH_PARTS
        await trio.sleep(1.0)
        assert cache.counters.writes == 2 * BATCH_PARTS


async def test_a_thread_that_was_given_up_leaves_no_file(autojump_clock: MockClock) -> None:
    steps = MemoryDiskSteps(clock=lambda: 0.0)
    disk = HungDisk(steps)
    async with running(disk) as cache:
        disk.is_hanging = True
        for number in range(3):
            offer(cache, number)
        await trio.sleep(STEP_SECONDS + 1)
        disk.is_hanging = False
        assert cache.counters.skipped_writes == 3
        with pytest.raises(OSError, match="nobody waits"):
            disk.left[0]()
        assert files(steps) == []
        assert cache.used_bytes == 0


async def test_a_file_that_cannot_get_its_name_is_removed(autojump_clock: MockClock) -> None:
    steps = TroubledSteps()
    async with running(MemoryDisk(steps)) as cache:
        steps.has_no_names = True
        offer(cache, 0)
        await settled(cache)
        assert cache.counters.failures == 1
        assert files(steps) == []


async def test_a_cold_scan_leaves_what_is_used_again(autojump_clock: MockClock) -> None:
    async with running(MemoryDisk(MemoryDiskSteps()), 20 * BLOCKS * BLOCK_BYTES) as cache:
        for number in range(10):
            offer(cache, number)
        await settled(cache)
        await trio.sleep(RECENT_SECONDS + 1)
        assert [await found(cache, number) for number in range(10)] == [BODY] * 10
        for number in range(100, 400):
            offer(cache, number)
            await settled(cache)
            assert await found(cache, number) == BODY  # at once: the scan's own use
        assert [await found(cache, number) for number in range(10)] == [BODY] * 10


async def test_a_part_in_its_file_outlives_its_eviction() -> None:
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


async def test_a_file_that_somebody_wrote_to_is_given_up() -> None:
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


async def test_who_reads_may_refuse_what_was_found() -> None:
    def refuse(body: memoryview) -> None:
        raise DamagedFile("not the index that was published")

    async with running(MemoryDisk(MemoryDiskSteps())) as cache:
        offer(cache, 1)
        await settled(cache)
        assert await cache.read(place(1), refuse) is None
        assert place(1) not in cache


def test_names_of_others_are_not_ours() -> None:
    name = f"{'0' * 32}-2c-100-0000beef"
    assert parse_name(name) is not None
    for other in ("", "lock", name + "0", name[1:], name.upper(), name.replace("-", "_")):
        assert parse_name(other) is None
