"""Sources of one object's bytes: a store, or a file on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import trio

from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.stores.object_store import Buffer, NoSuchObject, ObjectStore, StoreUnavailable

from .inspection import ByteSource


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A ByteSource of an object in a store."""

    store: ObjectStore
    key: str
    size_bytes: int

    async def read(self, start: int, length: int) -> Buffer:
        """See ByteSource."""
        return await self.store.get_range(self.key, start, length)


async def stored_object(store: ObjectStore, key: str) -> StoredObject:
    """Find an object by a LIST, since only a LIST returns its size.

    Raises:
      NoSuchObject: no object has this key.
      StoreUnavailable: try again later.
    """
    folder = key[: key.rindex("/") + 1] if "/" in key else ""
    # Start the LIST shortly before the key, so that the key is on the first page.
    after = key[:-1] if len(key) - len(folder) > 1 else ""
    while page := await store.list(folder, start_after=after):
        for info in page:
            if info.key == key:
                return StoredObject(store, key, info.size_bytes)
        after = page[-1].key
        if after > key:
            break
    raise NoSuchObject(key)


@dataclass(frozen=True, slots=True)
class HeldObject:
    """A ByteSource of an object in memory."""

    body: bytes

    @property
    def size_bytes(self) -> int:
        """See ByteSource."""
        return len(self.body)

    async def read(self, start: int, length: int) -> Buffer:
        """See ByteSource."""
        await trio.lowlevel.checkpoint()
        return memoryview(self.body)[start : start + length]


def inlined_object(state: ClusterState, key: str) -> HeldObject | None:
    """Return an object whose bytes are in the metadata log only; None if it is not there."""
    objects = state.objects
    for number in objects.inlined:
        body = objects.inlined.body(number)
        if body is not None and object_key(state, objects.name(number)) == key:
            return HeldObject(body)
    return None


class Windowed:
    """A ByteSource that reads ahead, for callers that read small parts in order.

    size: the least number of bytes that one read of the source requests.
    """

    def __init__(self, source: ByteSource, size: int) -> None:
        self._source = source
        self._size = size
        self._start = 0
        self._window = memoryview(b"")

    @property
    def size_bytes(self) -> int:
        """See ByteSource."""
        return self._source.size_bytes

    async def read(self, start: int, length: int) -> Buffer:
        """See ByteSource."""
        at = start - self._start
        if at < 0 or at + length > len(self._window):
            wanted = min(max(length, self._size), self.size_bytes - start)
            self._window = memoryview(await self._source.read(start, wanted))
            self._start, at = start, 0
        return self._window[at : at + length]


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A ByteSource of a file."""

    path: Path
    size_bytes: int

    async def read(self, start: int, length: int) -> Buffer:
        """See ByteSource."""
        data = await trio.to_thread.run_sync(self._read, start, length)
        if len(data) != length:
            raise StoreUnavailable(f"{self.path} became shorter while it was read")
        return data

    def _read(self, start: int, length: int) -> bytes:
        with self.path.open("rb") as file:
            return os.pread(file.fileno(), length, start)


def local_file(path: Path) -> LocalFile | None:
    """Return the file; None if there is no such file.  Blocks for a moment."""
    return LocalFile(path, path.stat().st_size) if path.is_file() else None
