"""The log as a gateway shows it to others that read through it.

A reader may have read further than this gateway, through another gateway.  The log may have been
moved at a position that this gateway has not read yet.  So this gateway catches up first, and then
knows which log to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from ..coordinator.coordinator import Coordinator, CoordinatorUnavailable
from ..log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)


class ShownLog:
    """A read-only view of the coordinator's log."""

    def __init__(self, log: MetadataLog, coordinator: Coordinator) -> None:
        self._log = log
        self._coordinator = coordinator

    @property
    def capabilities(self) -> LogCapabilities:
        return self._log.capabilities

    async def _reach(self, position: int) -> None:
        if self._coordinator.state.position >= position:
            return
        try:
            await self._coordinator.catch_up()
        except CoordinatorUnavailable as error:
            raise LogUnavailable(str(error)) from error

    async def append(self, position: int, payload: bytes) -> AppendResult:
        _refuse()

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await self._reach(from_position - 1)
        return await self._log.read(from_position, max_bytes)

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await self._reach(after_position)
        await self._log.wait(after_position, timeout_seconds)

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        _refuse()

    async def load_snapshot(self) -> Snapshot | None:
        return await self._log.load_snapshot()

    async def trim(self, before_position: int) -> None:
        _refuse()

    async def aclose(self) -> None:
        """The gateway closes its log itself."""


def _refuse() -> NoReturn:
    raise LogMisuse("other gateways may only read through this gateway; it alone changes the log")
