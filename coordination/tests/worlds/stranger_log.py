"""A log as an outsider would write it from `metadata_log.py` alone: `notebook:NAME`, in a dict."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogCorrupt,
    LogEntry,
    LogMisuse,
    Snapshot,
    Trimmed,
)

CAPABILITIES = LogCapabilities(False, 0.0, 100_000)


@dataclass(eq=False)
class Notebook:
    """Uses public names only, and inherits nothing."""

    capabilities: LogCapabilities = CAPABILITIES
    pages: dict[int, bytes] = field(default_factory=dict[int, bytes])
    first: int = 1
    end: int = 1
    saved: Snapshot | None = None
    grown: trio.Event = field(default_factory=trio.Event)

    async def append(self, position: int, payload: bytes) -> AppendResult:
        await trio.lowlevel.checkpoint()
        if position < 1 or len(payload) > self.capabilities.max_entry_bytes:
            raise LogMisuse("no such position, or too large")
        if position < self.first:
            return AppendResult.TRIMMED
        if position > self.end:
            raise LogCorrupt("there is a gap")
        if position in self.pages:
            return AppendResult.CONFLICT
        self.pages[position] = payload
        self.end = position + 1
        self.grown.set()
        self.grown = trio.Event()
        return AppendResult.APPENDED

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await trio.lowlevel.checkpoint()
        if from_position < self.first:
            return Trimmed(self.first)
        if from_position > self.end:
            raise LogCorrupt("the log is shorter than that")
        found: list[LogEntry] = []
        for position in range(from_position, self.end):
            max_bytes -= len(self.pages[position])
            if found and max_bytes < 0:
                break
            found.append(LogEntry(position, self.pages[position]))
        return found

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        with trio.move_on_after(timeout_seconds):
            while self.end <= after_position + 1:
                await self.grown.wait()

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        if self.saved is None or position >= self.saved.position:
            self.saved = Snapshot(position, list(chunks))

    async def load_snapshot(self) -> Snapshot | None:
        await trio.lowlevel.checkpoint()
        return self.saved

    async def trim(self, before_position: int) -> None:
        await trio.lowlevel.checkpoint()
        if before_position > self.end and self.end > 1:
            raise LogMisuse("that is beyond the end")
        self.first = max(self.first, before_position)
        self.end = max(self.end, self.first)
        self.pages = {at: what for at, what in self.pages.items() if at >= self.first}

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


SHELF: dict[str, Notebook] = {}


async def open_log(url: str) -> Notebook:
    await trio.lowlevel.checkpoint()
    return SHELF.setdefault(url, Notebook())
