"""The coordinator's access to the metadata log: it repeats calls until the log answers, and checks
what it reads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Final, TypeVar

import structlog
import trio

from tidegate_runtime.histograms import Histogram
from tidegate_runtime.said_again import SaidAgain

from .metadata_log import AppendResult, LogEntry, LogUnavailable, MetadataLog, Trimmed
from .whole_entries import whole_ones

Result = TypeVar("Result")

READ_BYTES: Final = 4 << 20
FIRST_RETRY_SECONDS: Final = 0.05
READ_AGAIN_SECONDS: Final = 0.25
LAST_RETRY_SECONDS: Final = 2.0

_log = structlog.get_logger("tidegate.coordinator")


class GatewayFenced(Exception):
    """This incarnation is fenced: other gateways ended it, or trimmed entries that it has not read.

    Stop the gateway and start it again; the outcome of its unanswered requests is unknown.
    """


class LogAccess:
    """Makes one call of the log at a time; callers that wait for it have their own deadlines.

    asked_at: when the unanswered call began; None if there is none.
    answered_at: when the log last gave an answer that proves that it is reachable.  unsure_since:
    since when it is called without such an answer; None while it is not called.  CONFLICT does not
    count, because it does not prove that this replica has read to the log's end, which a gateway
    that was cut off must do.  Reports of other gateways about the log do not count either, because
    the log may not answer those gateways.
    append_times: the durations of appends with their repeats, including lost appends.
    """

    def __init__(self, log: MetadataLog, is_cut_off: Callable[[], bool] = lambda: False) -> None:
        self._log = log
        self._is_cut_off = is_cut_off
        self.append_times = Histogram()
        self.asked_at: float | None = None
        self.answered_at = -inf
        self.unsure_since: float | None = None
        self._away_since: float | None = None

    async def append(self, position: int, payload: bytes) -> AppendResult:
        """Append, and repeat the append until its outcome is known.

        Raises:
          GatewayFenced: the position was trimmed.
        """
        began = trio.current_time()
        result = await self._retry(partial(self._log.append, position, payload))
        self.append_times.add(trio.current_time() - began)
        if result is AppendResult.TRIMMED:
            raise _left_behind(position)
        if result is AppendResult.APPENDED:
            self._note_end()
        return result

    async def read(self, position: int) -> list[LogEntry]:
        """Read from a position on; if the entry there is damaged, read it a second time.

        The entry may have been damaged in transit.  If it is still damaged, the fold refuses it.

        Raises:
          GatewayFenced: the position was trimmed.
        """
        entries = await self._read_once(position)
        whole, damage = whole_ones(entries)
        if whole or not damage:
            return whole
        _log.warning("reading once more what came damaged from the metadata log", error=damage)
        await trio.sleep(READ_AGAIN_SECONDS)
        return await self._read_once(position)

    async def _read_once(self, position: int) -> list[LogEntry]:
        entries = await self._retry(lambda: self._log.read(position, READ_BYTES))
        if isinstance(entries, Trimmed):
            raise _left_behind(position)
        if not entries or not self._is_cut_off():
            self._note_end()
        return entries

    def _note_end(self) -> None:
        """Note an answer that proves that the log is reachable."""
        self.answered_at = trio.current_time()
        self.unsure_since = self.asked_at  # the call under way may never be answered

    async def _retry(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        delay, said = FIRST_RETRY_SECONDS, None
        self.asked_at = trio.current_time()
        if self.unsure_since is None:
            self.unsure_since = self.asked_at
        while True:
            try:
                result = await attempt()
                self.asked_at = None
                if self._away_since is not None:
                    self._note_answer(self._away_since)
                return result
            except LogUnavailable as error:
                if self._away_since is None:
                    self._away_since = trio.current_time()
                said = said or SaidAgain()
                if said.is_due(str(error), trio.current_time()):
                    _log.warning("the metadata log does not answer; trying again", error=str(error))
                await trio.sleep(delay)
                delay = min(delay * 2, LAST_RETRY_SECONDS)

    def _note_answer(self, away_since: float) -> None:
        """Log that the metadata log answers again, after the warning that it did not."""
        away_seconds = round(trio.current_time() - away_since, 1)
        _log.info("the metadata log answers again", away_seconds=away_seconds)
        self._away_since = None


def _left_behind(position: int) -> GatewayFenced:
    return GatewayFenced(f"the log was trimmed past {position}, which this gateway had not read")
