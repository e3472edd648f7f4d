"""A disk in memory that can lose its power: the twin of RealDisk.

As a kernel may, it keeps writes in a cache until they are synced.  power_cut() drops the cache.
Unsynced bytes of a file are then lost, kept in part, or turned into zeros or garbage.  If a name
was linked, made or removed, and its folder was not synced, the change is kept or lost, each one
independently.  The remaining tree is what a disk would hold after the restart.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TypeAlias, TypeVar

import trio

from ..stores.files.steps import DiskEntry, DiskSteps, OpenFile
from ..stores.object_store import Buffer

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _File:
    modified_at: float
    content: bytearray = field(default_factory=bytearray)
    synced_content: bytes = b""
    writes: int = 0


@dataclass(slots=True, eq=False)
class _Folder:
    names: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    synced_names: dict[str, _Node] = field(default_factory=dict[str, "_Node"])


_Node: TypeAlias = _File | _Folder


class MemoryDiskSteps:
    """The kernel's calls on a tree in memory."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._root = _Folder()
        self._handles: dict[int, _File] = {}
        self._numbers = count()

    def make_folder(self, path: str) -> None:
        self._add(path, _Folder())

    def open_new(self, path: str) -> int:
        file = _File(self._clock())
        self._add(path, file)
        handle = next(self._numbers)
        self._handles[handle] = file
        return handle

    def write(self, handle: int, body: Buffer) -> None:
        file = self._handles[handle]
        file.content += body
        file.writes += 1

    def sync_file(self, handle: int) -> None:
        file = self._handles[handle]
        file.synced_content = bytes(file.content)

    def close(self, handle: int) -> None:
        del self._handles[handle]

    def link_new(self, source: str, target: str) -> None:
        self._add(target, self._file(source))

    def rename(self, source: str, target: str) -> None:
        file = self._file(source)
        folder, name = self._place(target)
        if isinstance(folder.names.get(name), _Folder):
            raise _os_error(errno.EISDIR, target)
        folder.names[name] = file
        self.remove(source)

    def remove(self, path: str) -> None:
        self._file(path)
        folder, name = self._place(path)
        del folder.names[name]

    def sync_folder(self, path: str) -> None:
        folder = self._folder(path)
        folder.synced_names = dict(folder.names)

    def read(self, path: str, start: int, length: int | None) -> bytes:
        content = self._file(path).content
        return bytes(content[start:] if length is None else content[start : start + length])

    def open_file(self, path: str) -> OpenFile:
        return MemoryFile(self._file(path))

    def scan(self, path: str) -> list[DiskEntry]:
        return [_entry(name, node) for name, node in self._folder(path).names.items()]

    def flip_bit(self, path: str, position: int) -> None:
        """Change a bit silently, as a failing disk may."""
        self._file(path).content[position] ^= 1

    def cut_short(self, path: str, size: int) -> None:
        """Keep only the first bytes, as an operator might by mistake."""
        file = self._file(path)
        del file.content[size:]
        file.writes += 1

    def power_cut(self, random: Random) -> None:
        """Drop unsynced bytes and names, as the seeded random decides."""
        self._handles.clear()
        _cut_folder(self._root, random, set())

    def _add(self, path: str, node: _Node) -> None:
        folder, name = self._place(path)
        if name in folder.names or not path:
            raise _os_error(errno.EEXIST, path)
        folder.names[name] = node

    def _place(self, path: str) -> tuple[_Folder, str]:
        parent, _, name = path.rpartition("/")
        return self._folder(parent), name

    def _folder(self, path: str) -> _Folder:
        node = self._node(path)
        if isinstance(node, _File):
            raise _os_error(errno.ENOTDIR, path)
        return node

    def _file(self, path: str) -> _File:
        node = self._node(path)
        if isinstance(node, _Folder):
            raise _os_error(errno.EISDIR, path)
        return node

    def _node(self, path: str) -> _Node:
        node: _Node = self._root
        for name in path.split("/") if path else ():
            if isinstance(node, _File):
                raise _os_error(errno.ENOTDIR, path)
            if name not in node.names:
                raise _os_error(errno.ENOENT, path)
            node = node.names[name]
        return node


class MemoryFile:
    """An OpenFile in memory."""

    __slots__ = ("_file",)

    def __init__(self, file: _File) -> None:
        self._file = file

    def stamp(self) -> tuple[int, int]:
        return len(self._file.content), self._file.writes

    def read_at(self, start: int, length: int) -> bytes:
        return bytes(self._file.content[start : start + length])

    def is_in_memory(self, start: int, length: int) -> bool:
        return True

    def send_to(self, socket: int, start: int, length: int) -> int:
        return os.write(socket, self.read_at(start, length))


class MemoryDisk:
    """Runs recipes in place: no threads, so the simulation can use it."""

    def __init__(self, steps: DiskSteps) -> None:
        self._steps = steps

    async def run(self, recipe: Callable[[DiskSteps], T]) -> T:
        await trio.lowlevel.checkpoint()
        return recipe(self._steps)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def _entry(name: str, node: _Node) -> DiskEntry:
    if isinstance(node, _Folder):
        return DiskEntry(name, True, 0, 0.0)
    return DiskEntry(name, False, len(node.content), node.modified_at)


def _os_error(number: int, path: str) -> OSError:
    """Return an OSError of the subclass for this number, as the kernel's calls raise it."""
    return OSError(number, os.strerror(number), path)


def _cut_folder(folder: _Folder, random: Random, seen: set[_File]) -> None:
    """Keep or undo each unsynced change of a name, independently of the others."""
    kept: dict[str, _Node] = {}
    for name in sorted(folder.names.keys() | folder.synced_names.keys()):
        node = random.choice([folder.names.get(name), folder.synced_names.get(name)])
        if node is not None:
            kept[name] = node
    folder.names, folder.synced_names = kept, dict(kept)
    for node in kept.values():
        if isinstance(node, _Folder):
            _cut_folder(node, random, seen)
        elif node not in seen:
            seen.add(node)
            _cut_file(node, random)


def _cut_file(file: _File, random: Random) -> None:
    synced_size = len(file.synced_content)
    unsynced_size = len(file.content) - synced_size
    if unsynced_size > 0:
        kept = random.randint(0, unsynced_size)
        damage = random.choice([b"", bytes(unsynced_size - kept), random.randbytes(unsynced_size)])
        file.content[synced_size + kept :] = damage
    file.synced_content = bytes(file.content)
