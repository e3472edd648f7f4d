"""The file store on a real folder, and on disks that fail."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
import trio

from tidegate_storage.disk.memory_disk import MemoryDisk, MemoryDiskSteps
from tidegate_storage.stores.file_store import FileObjectStore
from tidegate_storage.stores.files.real_disk import RealDisk, RealDiskSteps
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import StoreMisconfigured, StoreUnavailable


class FailingSteps(MemoryDiskSteps):
    """Fails the named step while error is set."""

    def __init__(self, step: str, error: int) -> None:
        super().__init__()
        self.step = step
        self.error = error

    def write(self, handle: int, body: bytes | bytearray | memoryview) -> None:
        self._fail("write")
        super().write(handle, body)

    def sync_file(self, handle: int) -> None:
        self._fail("sync_file")
        super().sync_file(handle)

    def sync_folder(self, path: str) -> None:
        self._fail("sync_folder")
        super().sync_folder(path)

    def _fail(self, step: str) -> None:
        if self.error and step == self.step:
            raise OSError(self.error, os.strerror(self.error))


class SlowSteps(RealDiskSteps):
    """Waits in each sync of a file until the announced number of threads has arrived."""

    def __init__(self, root: str, parties: int) -> None:
        super().__init__(root)
        self.barrier = threading.Barrier(parties)

    def sync_file(self, handle: int) -> None:
        self.barrier.wait(timeout=20)
        super().sync_file(handle)


@pytest.mark.parametrize("step", ["write", "sync_file"])
async def test_a_full_disk_stores_nothing_and_the_put_can_be_repeated(step: str) -> None:
    disk = FailingSteps(step, errno.ENOSPC)
    store = FileObjectStore(MemoryDisk(disk))
    with pytest.raises(StoreUnavailable, match="No space left"):
        await store.put("a/b", b"body")
    assert await store.list("") == []
    disk.error = 0
    await store.put("a/b", b"body")
    assert disk.scan(".tidegate-tmp") == []


async def test_after_a_failed_sync_of_a_folder_all_writes_are_refused() -> None:
    """The kernel may forget the failure and report success the next time."""
    disk = FailingSteps("sync_folder", 0)
    store = FileObjectStore(MemoryDisk(disk))
    await store.put("a/b", b"body")
    disk.error = errno.EIO
    with pytest.raises(StoreUnavailable):
        await store.put("a/c", b"body")
    disk.error = 0
    for call in (store.put("a/c", b"body"), store.put("d", b""), store.delete_many(["a/b"])):
        with pytest.raises(StoreUnavailable, match="check the disk, then restart"):
            await call
    assert await store.get("a/b") == b"body"


async def test_a_read_only_folder_is_an_operators_to_fix() -> None:
    store = FileObjectStore(MemoryDisk(FailingSteps("write", errno.EROFS)))
    with pytest.raises(StoreMisconfigured, match="Read-only file system"):
        await store.put("a", b"body")


async def test_a_key_below_an_object_is_refused(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path}")
    await store.put("a", b"body")
    with pytest.raises(StoreMisconfigured):
        await store.put("a/b", b"body")


async def test_the_folder_for_temporary_files_is_no_key(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path}")
    with pytest.raises(ValueError, match="temporary"):
        await store.put(".tidegate-tmp/0", b"body")


async def test_puts_sync_in_parallel(tmp_path: Path) -> None:
    steps = SlowSteps(str(tmp_path), parties=4)
    store = FileObjectStore(RealDisk(steps))
    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(store.put, f"a/{number}", b"body")
    assert len(await store.list("a/")) == 4


async def test_a_put_that_hangs_ends_at_its_deadline(tmp_path: Path) -> None:
    steps = SlowSteps(str(tmp_path), parties=2)
    store = FileObjectStore(RealDisk(steps), deadline_seconds=0.05)
    with pytest.raises(StoreUnavailable, match=r"longer than 0\.05 s"):
        await store.put("a", b"body")
    steps.barrier.abort()


async def test_objects_outlive_the_store(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/x/y"
    first = open_store(url)
    await first.put("a/b", b"body")
    await first.aclose()
    assert await open_store(url).get("a/b") == b"body"
    assert sorted(os.listdir(tmp_path / "x" / "y")) == [".tidegate-tmp", "a"]
    assert os.listdir(tmp_path / "x" / "y" / ".tidegate-tmp") == []
