"""A file store loses nothing that it acknowledged, wherever the power fails.

A seeded workload puts and deletes on a disk in memory.  At a random step the power fails, or the
process dies with the power on; then a new store reads the objects that are left.
"""

from __future__ import annotations

from random import Random

import pytest

from tidegate_storage.disk.memory_disk import MemoryDisk, MemoryDiskSteps
from tidegate_storage.stores.file_store import FileObjectStore
from tidegate_storage.stores.files.recipes import sweep_temporary
from tidegate_storage.stores.files.steps import DiskEntry, DiskSteps, OpenFile
from tidegate_storage.stores.object_store import (
    Buffer,
    NoSuchObject,
    ObjectExists,
    ObjectStore,
    put_idempotent,
)

FOLDERS = ("", "a/", "a/b/", "c/d/e/")
LIVES = 4
HOUR = 3600


class ProcessDied(Exception):
    pass


class MortalSteps:
    """Steps that stop working after a number of calls; some skip one kind of sync."""

    def __init__(self, steps: DiskSteps, calls_left: int, left_out: str) -> None:
        self._steps = steps
        self._calls_left = calls_left
        self._left_out = left_out

    def make_folder(self, path: str) -> None:
        self._count()
        self._steps.make_folder(path)

    def open_new(self, path: str) -> int:
        self._count()
        return self._steps.open_new(path)

    def write(self, handle: int, body: Buffer) -> None:
        self._count()
        half = len(body) // 2
        self._steps.write(handle, body[:half])
        self._count()
        self._steps.write(handle, body[half:])

    def sync_file(self, handle: int) -> None:
        self._count()
        if self._left_out != "file":
            self._steps.sync_file(handle)

    def close(self, handle: int) -> None:
        self._count()
        self._steps.close(handle)

    def link_new(self, source: str, target: str) -> None:
        self._count()
        self._steps.link_new(source, target)

    def rename(self, source: str, target: str) -> None:
        self._count()
        self._steps.rename(source, target)

    def remove(self, path: str) -> None:
        self._count()
        self._steps.remove(path)

    def sync_folder(self, path: str) -> None:
        self._count()
        kind = "root" if path == "" else "folder"
        if self._left_out != kind:
            self._steps.sync_folder(path)

    def read(self, path: str, start: int, length: int | None) -> bytes:
        self._count()
        return self._steps.read(path, start, length)

    def open_file(self, path: str) -> OpenFile:
        self._count()
        return self._steps.open_file(path)

    def scan(self, path: str) -> list[DiskEntry]:
        self._count()
        return self._steps.scan(path)

    def _count(self) -> None:
        self._calls_left -= 1
        if self._calls_left < 0:
            raise ProcessDied


class Ledger:
    """The state that the store acknowledged: bodies of stored keys, None for deleted ones."""

    def __init__(self) -> None:
        self.promised: dict[str, bytes | None] = {}
        self.unknown: dict[str, bytes] = {}


async def _workload(store: ObjectStore, random: Random, ledger: Ledger) -> None:
    for key, body in list(ledger.unknown.items()):
        await put_idempotent(store, key, body)
        ledger.promised[key] = ledger.unknown.pop(key)
    while True:
        stored = [key for key, body in ledger.promised.items() if body is not None]
        if stored and random.random() < 0.2:
            key = random.choice(stored)
            del ledger.promised[key]  # unknown until the delete returns
            await store.delete_many([key])
            ledger.promised[key] = None
        else:
            key = f"{random.choice(FOLDERS)}{random.getrandbits(48):x}"
            ledger.unknown[key] = random.randbytes(random.randint(0, 200))
            await store.put(key, ledger.unknown[key])
            ledger.promised[key] = ledger.unknown.pop(key)


async def _broken_promises(store: ObjectStore, ledger: Ledger) -> list[str]:
    broken: list[str] = []
    for key, body in ledger.promised.items():
        try:
            found = await store.get(key)
        except NoSuchObject:
            found = None
        if found != body:
            broken.append(f"{key}: promised {body!r}, found {found!r}")
    for key, body in ledger.unknown.items():
        try:
            if await store.get(key) != body:
                broken.append(f"{key} is there in part")
        except NoSuchObject:
            pass
    return broken


async def _run(seed: int, left_out: str = "") -> list[str]:
    random = Random(seed)
    disk = MemoryDiskSteps(clock=lambda: 0.0)
    ledger = Ledger()
    broken: list[str] = []
    for _ in range(LIVES):
        mortal = MortalSteps(disk, random.randint(0, 60), left_out)
        try:
            await _workload(FileObjectStore(MemoryDisk(mortal)), random, ledger)
        except ProcessDied:
            pass
        except ObjectExists as error:
            broken.append(f"{error} was not whole when its put was repeated")
            break
        if random.random() < 0.6:
            disk.power_cut(random)
        broken += await _broken_promises(FileObjectStore(MemoryDisk(disk)), ledger)
    return broken


@pytest.mark.parametrize("decade", range(10))
async def test_power_cuts_lose_nothing(decade: int) -> None:
    for seed in range(decade * 100, decade * 100 + 100):
        assert await _run(seed) == [], f"seed {seed}"


@pytest.mark.parametrize("left_out", ["file", "folder", "root"])
async def test_without_any_one_of_the_syncs_an_object_is_lost(left_out: str) -> None:
    broken = [seed for seed in range(100) if await _run(seed, left_out)]
    assert broken


async def test_a_key_is_reported_taken_only_when_it_is_durable() -> None:
    """A process dies between link and sync.

    Its successor finds the object, and takes it for its own.
    """
    disk = MemoryDiskSteps()
    for calls in range(40):
        mortal = MortalSteps(disk, calls, "")
        key = f"a/{calls}/x"
        try:
            await FileObjectStore(MemoryDisk(mortal)).put(key, b"body")
        except ProcessDied:
            with_successor = FileObjectStore(MemoryDisk(disk))
            await put_idempotent(with_successor, key, b"body")
        disk.power_cut(Random(calls))
        assert await FileObjectStore(MemoryDisk(disk)).get(key) == b"body"


async def test_leftovers_are_not_listed_and_are_swept_when_old() -> None:
    disk = MemoryDiskSteps(clock=lambda: 10 * HOUR)
    for calls in range(5, 9):
        store = FileObjectStore(MemoryDisk(MortalSteps(disk, calls, "")))
        with pytest.raises(ProcessDied):
            await store.put("a/b", b"body")
    store = FileObjectStore(MemoryDisk(disk))
    temporary = disk.scan(".tidegate-tmp")
    assert len(temporary) >= 2
    assert await store.list("") == []
    sweep_temporary(disk, 10 * HOUR)
    assert disk.scan(".tidegate-tmp") == temporary
    sweep_temporary(disk, 11 * HOUR)
    assert disk.scan(".tidegate-tmp") == []
    await store.put("a/b", b"body")


async def test_a_second_creator_skips_foreign_temporary_files() -> None:
    disk = MemoryDiskSteps()
    disk.make_folder(".tidegate-tmp")
    for number in range(3):
        disk.close(disk.open_new(f".tidegate-tmp/{number}"))
    store = FileObjectStore(MemoryDisk(disk))
    await store.put("a", b"body")
    with pytest.raises(ObjectExists):
        await store.put("a", b"body")
    assert [entry.name for entry in disk.scan(".tidegate-tmp")] == ["0", "1", "2"]
