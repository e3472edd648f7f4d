"""Crashes at the worst moments: just before or just after a call to the log or the store.

The wrapped call is the only thing between `before` and `after`.  So a crash there is a crash
between an effect and its caller's knowledge of the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from tidegate_storage.stores.object_store import Buffer, ObjectInfo, ObjectStore

PLACES = (
    "before append",
    "after append",
    "before put",
    "after put",
    "after delete",
    "after save_snapshot",
    "before read",
)

# The calls of a pipeline driver, which runs no housekeeping.
PIPELINE_PLACES = (
    "before append",
    "after append",
    "before put",
    "after put",
    "before read",
    "before get_range",
)

Reach = Callable[[str], None]


@dataclass(slots=True)
class CrashPoint:
    """The call to crash at, "" for none, and the number of such calls until the crash."""

    place: str = ""
    calls_left: int = 0

    def arm(self, place: str, calls: int) -> None:
        """Crash when that call is reached for the calls-th time."""
        self.place, self.calls_left = place, calls

    def disarm(self) -> None:
        """Crash nowhere."""
        self.place = ""

    def is_reached(self, place: str) -> bool:
        """Count a call; return True once, when the count is reached."""
        if place != self.place:
            return False
        self.calls_left -= 1
        if self.calls_left > 0:
            return False
        self.place = ""
        return True


class PointedLog:
    """A log that reports each call of its caller to a crash point."""

    def __init__(self, log: MetadataLog, reach: Reach) -> None:
        self._log = log
        self._reach = reach

    @property
    def capabilities(self) -> LogCapabilities:
        """See MetadataLog."""
        return self._log.capabilities

    async def append(self, position: int, payload: bytes) -> AppendResult:
        """See MetadataLog."""
        await self._pass("before append")
        result = await self._log.append(position, payload)
        await self._pass("after append")
        return result

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        """See MetadataLog."""
        await self._pass("before read")
        return await self._log.read(from_position, max_bytes)

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        """See MetadataLog."""
        await self._log.wait(after_position, timeout_seconds)

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        """See MetadataLog."""
        await self._log.save_snapshot(position, chunks)
        await self._pass("after save_snapshot")

    async def load_snapshot(self) -> Snapshot | None:
        """See MetadataLog."""
        return await self._log.load_snapshot()

    async def trim(self, before_position: int) -> None:
        """See MetadataLog."""
        await self._log.trim(before_position)

    async def aclose(self) -> None:
        """See MetadataLog."""
        await self._log.aclose()

    async def _pass(self, place: str) -> None:
        self._reach(place)
        await trio.lowlevel.checkpoint()


class PointedStore:
    """A store that reports each call of its caller to a crash point.

    read: called with the key of an object that is about to be read in part.
    """

    def __init__(self, store: ObjectStore, reach: Reach, read: Callable[[str], None]) -> None:
        self._store = store
        self._reach = reach
        self._read = read

    @property
    def requests_cost_money(self) -> bool:
        """See ObjectStore."""
        return self._store.requests_cost_money

    async def put(self, key: str, body: Buffer) -> None:
        """See ObjectStore."""
        await self._pass("before put")
        await self._store.put(key, body)
        await self._pass("after put")

    async def get(self, key: str) -> bytes:
        """See ObjectStore."""
        return await self._store.get(key)

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        """See ObjectStore."""
        self._read(key)
        self._reach("before get_range")
        return await self._store.get_range(key, start, length)

    async def delete_many(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        await self._store.delete_many(keys)
        await self._pass("after delete")

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        """See ObjectStore."""
        return await self._store.list(prefix, start_after=start_after, limit=limit)

    async def aclose(self) -> None:
        """See ObjectStore."""
        await self._store.aclose()

    async def _pass(self, place: str) -> None:
        self._reach(place)
        await trio.lowlevel.checkpoint()
