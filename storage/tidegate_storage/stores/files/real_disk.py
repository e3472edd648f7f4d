"""A folder of a real file system; recipes run in threads, several at a time."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import trio

from ..object_store import Buffer
from .steps import DiskEntry, DiskSteps, OpenFile

T = TypeVar("T")

# Only Linux can check without blocking; elsewhere every file counts as in memory.
_NOWAIT = getattr(os, "RWF_NOWAIT", -1)
# The kernel reads and evicts files in stretches, so checking some of the pages is enough.
_LOOK_BYTES = 128 << 10


class RealDiskSteps:
    """The kernel's calls on paths below a root folder."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)

    def make_root(self) -> None:
        """Make the root folder, and missing folders above it, durably."""
        missing: list[str] = []
        folder = self._root
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        os.makedirs(self._root, exist_ok=True)
        for made in missing:
            _sync_folder(os.path.dirname(made))

    def make_folder(self, path: str) -> None:
        os.mkdir(self._full(path))

    def open_new(self, path: str) -> int:
        return os.open(self._full(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def write(self, handle: int, body: Buffer) -> None:
        view = memoryview(body)
        while view:
            view = view[os.write(handle, view) :]

    def sync_file(self, handle: int) -> None:
        os.fsync(handle)

    def close(self, handle: int) -> None:
        os.close(handle)

    def link_new(self, source: str, target: str) -> None:
        os.link(self._full(source), self._full(target))

    def rename(self, source: str, target: str) -> None:
        os.rename(self._full(source), self._full(target))

    def remove(self, path: str) -> None:
        os.unlink(self._full(path))

    def sync_folder(self, path: str) -> None:
        _sync_folder(self._full(path))

    def read(self, path: str, start: int, length: int | None) -> bytes:
        with open(self._full(path), "rb", buffering=0) as file:
            file.seek(start)
            return file.readall() if length is None else _read_up_to(file.fileno(), length)

    def open_file(self, path: str) -> OpenFile:
        handle = os.open(self._full(path), os.O_RDONLY | os.O_CLOEXEC)
        file = RealFile(handle)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return file

    def scan(self, path: str) -> list[DiskEntry]:
        with os.scandir(self._full(path)) as entries:
            found = [_entry(entry) for entry in entries]
        return [entry for entry in found if entry is not None]

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"


class RealFile:
    """An OpenFile of the kernel's."""

    __slots__ = ("_handle",)

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __del__(self) -> None:
        os.close(self._handle)

    def stamp(self) -> tuple[int, int]:
        status = os.fstat(self._handle)
        return status.st_size, status.st_mtime_ns

    def read_at(self, start: int, length: int) -> bytes:
        part = os.pread(self._handle, length, start)
        if len(part) == length or not part:
            return part
        return part + self.read_at(start + len(part), length - len(part))

    def is_in_memory(self, start: int, length: int) -> bool:
        """See OpenFile.  If the file system cannot answer, the bytes count as not in memory."""
        if _NOWAIT < 0:
            return True
        try:
            for at in (*range(start, start + length, _LOOK_BYTES), start + length - 1):
                os.preadv(self._handle, (bytearray(1),), at, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            cannot_tell = error.errno == errno.EOPNOTSUPP
            return cannot_tell and _is_memory(os.fstat(self._handle).st_dev)
        return True

    def send_to(self, socket: int, start: int, length: int) -> int:
        return os.sendfile(socket, self._handle, start, length)


class RealDisk:
    """Runs each recipe in a thread, up to max_threads at a time."""

    def __init__(self, steps: DiskSteps, *, max_threads: int = 16) -> None:
        self._steps = steps
        self._limiter = trio.CapacityLimiter(max_threads)

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        return await trio.to_thread.run_sync(
            recipe, self._steps, abandon_on_cancel=True, limiter=self._limiter
        )

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@cache
def _is_memory(device: int) -> bool:
    """Return whether a file system lies in memory only (tmpfs)."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            found = [line.partition(" - ") for line in mounts if line.split()[2] == number]
    except OSError:
        return False
    return any(kind.split()[0] in ("tmpfs", "ramfs") for _, _, kind in found)


def _sync_folder(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_up_to(handle: int, length: int) -> bytes:
    """Read until length or the end; one read() may return less."""
    parts: list[bytes] = []
    while length and (part := os.read(handle, length)):
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _entry(entry: os.DirEntry[str]) -> DiskEntry | None:
    """Return a name's entry; None if the name was removed during the scan."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return DiskEntry(entry.name, stat.S_ISDIR(status.st_mode), status.st_size, status.st_mtime)
