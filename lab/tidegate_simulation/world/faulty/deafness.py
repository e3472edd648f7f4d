"""The log and the store of a machine that gets no answers: each call takes effect, unseen.

Neither class draws random numbers.  Both only pass calls on while answers arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from tidegate_storage.stores.object_store import Buffer, ObjectInfo, ObjectStore, StoreUnavailable


class DeafLog:
    """A log whose answers may be lost.  is_deaf: answers are lost now."""

    def __init__(self, log: MetadataLog) -> None:
        self.is_deaf = False
        self._log = log

    @property
    def capabilities(self) -> LogCapabilities:
        """See MetadataLog."""
        return self._log.capabilities

    def _hear(self) -> None:
        if self.is_deaf:
            raise LogUnavailable("injected: the answer is lost")

    async def append(self, position: int, payload: bytes) -> AppendResult:
        """See MetadataLog."""
        result = await self._log.append(position, payload)
        self._hear()
        return result

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        """See MetadataLog."""
        result = await self._log.read(from_position, max_bytes)
        self._hear()
        return result

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        """See MetadataLog."""
        await self._log.wait(after_position, timeout_seconds)
        self._hear()

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        """See MetadataLog."""
        await self._log.save_snapshot(position, chunks)
        self._hear()

    async def load_snapshot(self) -> Snapshot | None:
        """See MetadataLog."""
        result = await self._log.load_snapshot()
        self._hear()
        return result

    async def trim(self, before_position: int) -> None:
        """See MetadataLog."""
        await self._log.trim(before_position)
        self._hear()

    async def aclose(self) -> None:
        """See MetadataLog."""
        await self._log.aclose()


class DeafStore:
    """A store whose answers may be lost.  is_deaf: answers are lost now."""

    def __init__(self, store: ObjectStore) -> None:
        self.is_deaf = False
        self._store = store

    @property
    def requests_cost_money(self) -> bool:
        """See ObjectStore."""
        return self._store.requests_cost_money

    def _hear(self) -> None:
        if self.is_deaf:
            raise StoreUnavailable("injected: the answer is lost")

    async def put(self, key: str, body: Buffer) -> None:
        """See ObjectStore."""
        await self._store.put(key, body)
        self._hear()

    async def get(self, key: str) -> bytes:
        """See ObjectStore."""
        result = await self._store.get(key)
        self._hear()
        return result

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        """See ObjectStore."""
        result = await self._store.get_range(key, start, length)
        self._hear()
        return result

    async def delete_many(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        await self._store.delete_many(keys)
        self._hear()

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        """See ObjectStore."""
        found = await self._store.list(prefix, start_after=start_after, limit=limit)
        self._hear()
        return found

    async def aclose(self) -> None:
        """See ObjectStore."""
        await self._store.aclose()
