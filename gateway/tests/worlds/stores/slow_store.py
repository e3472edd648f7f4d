"""An object store whose puts of WAL objects are slow."""

from __future__ import annotations

import trio

from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer


class SlowStore(MemoryObjectStore):
    """Puts of WAL objects take put_seconds."""

    put_seconds = 0.0

    async def put(self, key: str, body: Buffer) -> None:
        if "/wal/" in key:
            await trio.sleep(self.put_seconds)
        await super().put(key, body)
