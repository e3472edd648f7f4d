"""A log that can be moved while gateways use it (decision 13).

The state says where the log is: once the entry that holds LogMoved is folded, every later position
is in the new log.  The first call after that makes sure that the new log holds all entries of the
old one, as the mover may not have copied the last ones.  Then all calls go to the new log.  No
entry is appended to the old log after LogMoved, because a gateway that knows the next position has
read LogMoved.

Each call goes to the log that is current when the call starts.  Calls under way at the old log end
there, and then that log is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog
import trio

from tidegate_runtime.url_secrets import without_secrets
from tidegate_storage.stores.counting_store import RequestSums

from ..log.copying import complete_copy, holds_copy, patiently, prove_target
from ..log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    LogMisconfigured,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from ..state.cluster import ClusterState
from ..state.log_moves import LogMove
from .objects.log import ObjectLog

Result = TypeVar("Result")
OpenNext = Callable[[str], Awaitable[MetadataLog]]

CLOSE_SECONDS: Final = 5.0
COMPLETE_SECONDS: Final = 30.0

_log = structlog.get_logger("tidegate.log")


@dataclass(eq=False, slots=True)
class _Opened:
    """calls: the number of calls under way."""

    log: MetadataLog
    calls: int = 0


class MovableLog:
    """See the module's head.

    open_next: opens the log at the URL that a move names.  moves: the number of moves followed.
    """

    def __init__(self, log: MetadataLog, open_next: OpenNext) -> None:
        self._present = _Opened(log)
        self._open_next = open_next
        self._state: ClusterState | None = None
        self._passed = 0
        self._next: MetadataLog | None = None
        self._next_of = ""
        self._is_proven = False
        self._one_at_a_time = trio.Lock()
        self.moves = 0

    def follow(self, state: ClusterState) -> None:
        """Use the log that this state names; the state is folded from entries read here."""
        self._state = state

    @property
    def capabilities(self) -> LogCapabilities:
        return self._present.log.capabilities

    @property
    def requests(self) -> RequestSums | None:
        """The requests of an object store that holds the log; None for a log that counts none."""
        log = self._present.log
        return log.requests if isinstance(log, ObjectLog) else None

    # -- where the log is -------------------------------------------------------------------------

    def _is_here(self, state: ClusterState) -> bool:
        sealed_at = state.log_moves.sealed_at
        if state.position > sealed_at > self._passed:
            self._passed = sealed_at  # later entries were read here, so this is the new log
        return sealed_at <= self._passed or not self.capabilities.can_append

    async def _find(self) -> _Opened:
        state = self._state
        if state is not None and not self._is_here(state):
            async with self._one_at_a_time:
                if not self._is_here(state):
                    await self._go_on(state)
        return self._present

    async def _go_on(self, state: ClusterState) -> None:
        """Switch to the new log."""
        old, sealed_at = self._present, state.log_moves.sealed_at
        if await old.log.read(sealed_at + 1, 1):
            self._passed = sealed_at  # the old log ends before, so this is the new one
            return
        move = state.log_moves.last
        new = await self._followed(move)
        await self._complete(old.log, new, move, sealed_at)
        self._next = None
        self._present, self._passed = _Opened(new), sealed_at
        self.moves += 1
        _log.warning(
            "the metadata log has moved: set metadata.log to the new one",
            url=without_secrets(move.url),
            move=move.move_id,
        )
        await self._close_if_idle(old)

    async def _followed(self, move: LogMove) -> MetadataLog:
        """Open the target of a move; an error names the target."""
        try:
            return await self._opened(move.url, move.move_id)
        except LogMisconfigured as error:
            raise LogMisconfigured(
                f"it has moved to {without_secrets(move.url)}, which cannot be opened: {error}"
            ) from error

    async def _opened(self, url: str, move_id: str) -> MetadataLog:
        if self._next is not None and self._next_of != move_id:
            await self._let_go()
        if self._next is None:
            self._next = await self._open_next(url)
            self._next_of, self._is_proven = move_id, False
        return self._next

    async def _prove(self, new: MetadataLog, move: LogMove, sealed_at: int = 0) -> None:
        """Check an opened log once only, because its snapshot may be large."""
        if not self._is_proven:
            await prove_target(new, move, sealed_at)
            self._is_proven = True

    async def _complete(
        self, old: MetadataLog, new: MetadataLog, move: LogMove, sealed_at: int
    ) -> None:
        with trio.move_on_after(COMPLETE_SECONDS):
            await patiently(lambda: self._prove(new, move, sealed_at))
            await complete_copy(old, new, move.offered_at, sealed_at)
            return
        raise LogUnavailable(
            "the last entries of the log that was moved are not yet in the new one"
        )

    async def _let_go(self) -> None:
        if self._next is not None:
            log, self._next = self._next, None
            await _close(log)

    async def prepare(self, move: LogMove) -> bool:
        """Open the offered log; return whether it holds the copy already.

        Raises:
          LogMisconfigured: the offered log cannot be used.
          LogUnavailable: the offered log does not answer now.
        """
        async with self._one_at_a_time:
            new = await self._opened(move.url, move.move_id)
            await self._prove(new, move)
            return await holds_copy(self._present.log, new, move.offered_at)

    async def forget_next(self) -> None:
        """Close the log that prepare() opened, unless the move was committed: then it is in use."""
        async with self._one_at_a_time:
            if self._state is None or self._next_of != self._state.log_moves.last.move_id:
                await self._let_go()

    # -- the calls of a log -----------------------------------------------------------------------

    async def _call(self, call: Callable[[MetadataLog], Awaitable[Result]]) -> Result:
        opened = await self._find()
        opened.calls += 1
        try:
            return await call(opened.log)
        finally:
            opened.calls -= 1
            if opened is not self._present:
                await self._close_if_idle(opened)

    async def _close_if_idle(self, opened: _Opened) -> None:
        if not opened.calls:
            await _close(opened.log)

    async def append(self, position: int, payload: bytes) -> AppendResult:
        return await self._call(lambda log: log.append(position, payload))

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        return await self._call(lambda log: log.read(from_position, max_bytes))

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await self._call(lambda log: log.wait(after_position, timeout_seconds))

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await self._call(lambda log: log.save_snapshot(position, chunks))

    async def load_snapshot(self) -> Snapshot | None:
        return await self._call(lambda log: log.load_snapshot())

    async def trim(self, before_position: int) -> None:
        await self._call(lambda log: log.trim(before_position))

    async def aclose(self) -> None:
        await self._let_go()
        await self._present.log.aclose()


async def _close(log: MetadataLog) -> None:
    """Close an unused log; an error of closing is ignored, since the log is not needed."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_SECONDS):
        try:
            await log.aclose()
        except LogUnavailable as error:
            _log.warning("a metadata log could not be closed in order", error=str(error))
