"""An in-memory metadata log that shows a watcher every write."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate_coordination.log.metadata_log import AppendResult
from tidegate_coordination.logs.memory import WITH_SMALL_WRITES, MemoryLog

from ..invariants.invariants import StateWatch
from ..plans.move_plan import FIRST_LOG


class WatchedLog(MemoryLog):
    """A MemoryLog that shows each entry to a watcher before any reader gets it.  url: its own."""

    def __init__(self, watch: StateWatch, url: str = FIRST_LOG) -> None:
        super().__init__(WITH_SMALL_WRITES)
        self._watch = watch
        self._url = url

    async def append(self, position: int, payload: bytes) -> AppendResult:
        """See MetadataLog."""
        result = await super().append(position, payload)
        if result is AppendResult.APPENDED:
            self._watch.appended(self._url, position, bytes(payload))
        return result

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        """See MetadataLog."""
        self._watch.formats.snapshot(position, b"".join(chunks))
        if self._url != FIRST_LOG:
            self._watch.saved(self._url, b"".join(chunks))
        await super().save_snapshot(position, chunks)
