"""`memory:`, the twin of the real logs: lists in this process, nothing survives it.

Gateways of one process share a log by sharing the object. A call takes effect between two
checkpoints, so effects have the order of calls, and a seed repeats them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import trio

from tidegate_coordination.log.metadata_log import (
    FIRST_POSITION,
    AppendResult,
    LogCapabilities,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogMisuse,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.log.snapshots import frame_chunks, unframe_chunks

CAPABILITIES: Final = LogCapabilities(
    forward_to_leader=False,
    typical_append_seconds=0.0,
    max_entry_bytes=1 << 20,
)
WITH_SMALL_WRITES: Final = replace(CAPABILITIES, inline_bytes_per_second=4 << 20)
"""With this, gateways store nothing that is small; most tests look at stored objects."""


async def open_log(url: str) -> "MemoryLog":
    """A new, empty log; `memory:` has no name, so two calls never open the same log."""
    await trio.lowlevel.checkpoint()
    if url != "memory:":
        raise LogMisconfigured("a log in memory has no name: write `memory:` alone")
    return MemoryLog(WITH_SMALL_WRITES)


class MemoryLog:
    def __init__(self, capabilities: LogCapabilities = CAPABILITIES) -> None:
        self._capabilities = capabilities
        self._first_position = FIRST_POSITION
        self._payloads: list[bytes] = []  # from _first_position on
        self._snapshot: list[bytes] | None = None
        self._snapshot_position = -1
        # Not an Event: a ParkingLot wakes tasks in the order of waiting, so a run can be repeated.
        self._grown = trio.lowlevel.ParkingLot()

    @property
    def capabilities(self) -> LogCapabilities:
        return self._capabilities

    @property
    def _end(self) -> int:
        return self._first_position + len(self._payloads)

    async def append(self, position: int, payload: bytes) -> AppendResult:
        self._capabilities.check_append(position, payload)
        await trio.lowlevel.checkpoint()
        if position < self._first_position:
            return AppendResult.TRIMMED
        if position < self._end:
            return AppendResult.CONFLICT
        self._check_joined(position)
        self._payloads.append(bytes(payload))
        self._grown.unpark_all()
        return AppendResult.APPENDED

    def _check_joined(self, position: int) -> None:
        if position > self._end:
            raise LogCorrupt(
                f"position {position} was requested, but the log ends before {self._end}"
            )

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await trio.lowlevel.checkpoint()
        if from_position < self._first_position:
            return Trimmed(self._first_position)
        self._check_joined(from_position)
        entries: list[LogEntry] = []
        for position in range(from_position, self._end):
            entry = LogEntry(position, self._payloads[position - self._first_position])
            max_bytes -= len(entry.payload)
            if entries and max_bytes < 0:
                break
            entries.append(entry)
        return entries

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(timeout_seconds):
            while self._end <= after_position + 1:
                await self._grown.park()

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        framed = frame_chunks(position, chunks)
        await trio.lowlevel.checkpoint()
        if position >= self._snapshot_position:
            self._snapshot, self._snapshot_position = framed, position

    async def load_snapshot(self) -> Snapshot | None:
        await trio.lowlevel.checkpoint()
        return None if self._snapshot is None else unframe_chunks(self._snapshot)

    async def trim(self, before_position: int) -> None:
        await trio.lowlevel.checkpoint()
        pristine = self._end == FIRST_POSITION
        if before_position > self._end and not pristine:
            raise LogMisuse(f"cannot trim below {before_position}: the log ends at {self._end - 1}")
        gone = before_position - self._first_position
        if gone > 0:
            del self._payloads[:gone]
            self._first_position = before_position

    async def aclose(self) -> None:
        """Release nothing: other gateways may hold the same log."""
        await trio.lowlevel.checkpoint()
