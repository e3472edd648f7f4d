"""An object store that notices answers which contradict an earlier answer to the same request.

Objects never change and keys are never used again.  So two reads of a range return the same bytes,
and a missing object stays missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from tidegate_storage.stores.object_store import (
    Buffer,
    NoSuchObject,
    ObjectInfo,
    ObjectStore,
    object_exists,
)

# This takes about 20 MB; reads of further ranges are not compared.
MAX_RANGES: Final = 100_000


class Answers:
    """The answers so far, which several witnesses share.

    contradictions: how many answers differed.
    """

    def __init__(self) -> None:
        self.contradictions = 0
        self._checksums: dict[tuple[str, int, int], int] = {}
        self._missing: set[str] = set()

    def found(self, key: str, start: int, body: Buffer) -> None:
        """Note the bytes of a range; start: -1 for a read of the whole object."""
        place, checksum = (key, start, len(body)), crc32(body)
        before = self._checksums.get(place, checksum)
        self.contradictions += key in self._missing or before != checksum
        if len(self._checksums) < MAX_RANGES:
            self._checksums[place] = checksum

    def missed(self, key: str) -> None:
        """Note that the store does not hold an object."""
        if len(self._missing) < MAX_RANGES:
            self._missing.add(key)


class Witness:
    """See the module's docstring; all other calls go to the store unchanged."""

    def __init__(self, store: ObjectStore, answers: Answers) -> None:
        self._store = store
        self._answers = answers

    @property
    def requests_cost_money(self) -> bool:
        """See ObjectStore."""
        return self._store.requests_cost_money

    async def put(self, key: str, body: Buffer) -> None:
        await self._store.put(key, body)

    async def get(self, key: str) -> bytes:
        try:
            body = await self._store.get(key)
        except NoSuchObject:
            self._answers.missed(key)
            raise
        self._answers.found(key, -1, body)
        return body

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        try:
            body = await self._store.get_range(key, start, length)
        except NoSuchObject:
            self._answers.missed(key)
            raise
        self._answers.found(key, start, body)
        return body

    async def delete_many(self, keys: Sequence[str]) -> None:
        await self._store.delete_many(keys)

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        return await self._store.list(prefix, start_after=start_after, limit=limit)

    async def exists(self, key: str) -> bool:
        """See AnswersHead."""
        return await object_exists(self._store, key)

    async def aclose(self) -> None:
        await self._store.aclose()
