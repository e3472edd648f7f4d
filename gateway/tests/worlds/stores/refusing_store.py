"""A gateway's own connection to a shared object store, which may refuse kinds of calls."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from tidegate_storage.stores.object_store import (
    Buffer,
    ObjectInfo,
    ObjectStore,
    StoreMisconfigured,
)


class RefusingStore:
    """refused: the kinds of calls that are refused now; "get" refuses ranges, too.

    refused_after_seconds: how long a call waits for its refusal.
    """

    requests_cost_money = False

    def __init__(self, store: ObjectStore) -> None:
        self.refused: set[str] = set()
        self.refused_after_seconds = 0.0
        self._store = store

    async def put(self, key: str, body: Buffer) -> None:
        await self._refuse("put")
        await self._store.put(key, body)

    async def get(self, key: str) -> bytes:
        await self._refuse("get")
        return await self._store.get(key)

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        await self._refuse("get", "get_range")
        return await self._store.get_range(key, start, length)

    async def delete_many(self, keys: Sequence[str]) -> None:
        await self._refuse("delete")
        await self._store.delete_many(keys)

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        await self._refuse("list")
        return await self._store.list(prefix, start_after=start_after, limit=limit)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    async def _refuse(self, *kinds: str) -> None:
        await trio.lowlevel.checkpoint()
        for kind in kinds:
            if kind in self.refused:
                await trio.sleep(self.refused_after_seconds)
                raise StoreMisconfigured(f"{kind} is refused")
