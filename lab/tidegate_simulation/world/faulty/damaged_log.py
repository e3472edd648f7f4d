"""A log that breaks its contract: now and then it returns an entry with a wrong byte.

It damages only entries with a checksum: a reader cannot detect damage in other entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tidegate_coordination.events.entries import CHECKED_FORMAT, decode_entry
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    MetadataLog,
    Snapshot,
    Trimmed,
)


class DamagedLog:
    """See the module's head.

    strikes: asked at every read that could be damaged.  has_struck: this reader has read damage.
    """

    def __init__(self, log: MetadataLog, rng: Random, strikes: Callable[[], bool]) -> None:
        self.has_struck = False
        self._log = log
        self._rng = rng
        self._strikes = strikes

    @property
    def capabilities(self) -> LogCapabilities:
        """See MetadataLog."""
        return self._log.capabilities

    async def append(self, position: int, payload: bytes) -> AppendResult:
        """See MetadataLog."""
        return await self._log.append(position, payload)

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        """See MetadataLog."""
        entries = await self._log.read(from_position, max_bytes)
        if isinstance(entries, Trimmed):
            return entries
        whole = [number for number, each in enumerate(entries) if _is_checked(each)]
        if whole and self._strikes():
            self.has_struck = True
            number = self._rng.choice(whole)
            entries[number] = self._damaged(entries[number])
        return entries

    def _damaged(self, entry: LogEntry) -> LogEntry:
        payload = bytearray(entry.payload)
        payload[self._rng.randrange(len(payload))] ^= self._rng.randrange(1, 256)
        return LogEntry(entry.position, bytes(payload))

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        """See MetadataLog."""
        await self._log.wait(after_position, timeout_seconds)

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        """See MetadataLog."""
        await self._log.save_snapshot(position, chunks)

    async def load_snapshot(self) -> Snapshot | None:
        """See MetadataLog."""
        return await self._log.load_snapshot()

    async def trim(self, before_position: int) -> None:
        """See MetadataLog."""
        await self._log.trim(before_position)

    async def aclose(self) -> None:
        """See MetadataLog."""
        await self._log.aclose()


def _is_checked(entry: LogEntry) -> bool:
    return decode_entry(entry.payload, entry.position).format >= CHECKED_FORMAT
