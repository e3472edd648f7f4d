"""A store and a log that end the process at one of their writes, before or after its effect."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from tidegate_storage.stores.object_store import Buffer, ObjectInfo, ObjectStore

Result = TypeVar("Result")


class Blown(Exception):
    """The process ends here."""


class Fuse:
    """Blows at write number `at`, and stays blown."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left = at
        self._after = after
        self.is_blown = False

    async def write(self, call: Awaitable[Result]) -> Result:
        blows = self._left == 0
        self._left -= 1
        if blows or self.is_blown:
            self.is_blown = True
            if blows and self._after:
                await call
            else:
                call.close()  # type: ignore[attr-defined]
            raise Blown
        return await call


class FusedStore:
    requests_cost_money = False

    def __init__(self, store: ObjectStore, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse

    async def put(self, key: str, body: Buffer) -> None:
        await self._fuse.write(self._store.put(key, body))

    async def get(self, key: str) -> bytes:
        return await self._store.get(key)

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        return await self._store.get_range(key, start, length)

    async def delete_many(self, keys: Sequence[str]) -> None:
        await self._fuse.write(self._store.delete_many(keys))

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        return await self._store.list(prefix, start_after=start_after, limit=limit)

    async def aclose(self) -> None:
        await self._store.aclose()


class FusedLog:
    def __init__(self, log: MetadataLog, fuse: Fuse) -> None:
        self._log = log
        self._fuse = fuse

    @property
    def capabilities(self) -> LogCapabilities:
        return self._log.capabilities

    async def append(self, position: int, payload: bytes) -> AppendResult:
        return await self._fuse.write(self._log.append(position, payload))

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        return await self._log.read(from_position, max_bytes)

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await self._log.wait(after_position, timeout_seconds)

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await self._fuse.write(self._log.save_snapshot(position, chunks))

    async def load_snapshot(self) -> Snapshot | None:
        return await self._log.load_snapshot()

    async def trim(self, before_position: int) -> None:
        await self._fuse.write(self._log.trim(before_position))

    async def aclose(self) -> None:
        await self._log.aclose()
