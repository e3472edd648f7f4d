"""Disks that fail, and a cache on them."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import TypeVar

import trio
from crc32c import crc32c
from trio.testing import wait_all_tasks_blocked

from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.disk.cache_files import FOLDER, Place
from tidegate_storage.disk.memory_disk import MemoryDisk, MemoryDiskSteps
from tidegate_storage.disk.queue import Offer
from tidegate_storage.stores.files.steps import Disk, DiskSteps
from tidegate_storage.stores.object_store import Buffer

T = TypeVar("T")

BODY = bytes(range(256)) * 40
BLOCKS = 3  # that BODY takes


class TroubledSteps(MemoryDiskSteps):
    """A disk that fails in one way at a time."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)
        self.trouble = 0
        self.writes_before = 0  # the number of writes that still succeed
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
    """Writes unsynced bytes now and then, as a kernel may."""

    def __init__(self, random: Random) -> None:
        super().__init__(clock=lambda: 0.0)
        self._random = random

    def close(self, handle: int) -> None:
        if self._random.random() < 0.5:
            self.sync_file(handle)
        super().close(handle)


class FailingDisk(MemoryDisk):
    """Fails before the first step."""

    def __init__(self, steps: DiskSteps) -> None:
        super().__init__(steps)
        self.error: Exception | None = None

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        if self.error is not None:
            raise self.error
        return await super().run(recipe)


class SlowDisk(MemoryDisk):
    """Hangs for as long as the test wants."""

    def __init__(self, steps: DiskSteps) -> None:
        super().__init__(steps)
        self.seconds = 0.0

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        await trio.sleep(self.seconds)
        return await super().run(recipe)


class HungDisk(MemoryDisk):
    """Runs recipes later, as a thread may whose caller has abandoned it."""

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
    """Wait until each offered part is written or refused."""
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
