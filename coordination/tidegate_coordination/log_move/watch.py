"""A gateway's part in a move of the log: it checks the offered copy, and answers.

For the check it opens the new log and keeps it open, so that no log has to be opened when the old
one ends.
"""

from __future__ import annotations

from typing import Final

import structlog
import trio

from ..coordinator.coordinator import Coordinator, CoordinatorUnavailable, ProposalFailed
from ..log.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from ..logs.movable import MovableLog
from ..rules.log_moves import AnswerOffer
from ..state.changes import EVERY_ENTRY, LOG_MOVES
from ..state.log_moves import LogMove

LOOK_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 0.1
IDLE_SECONDS: Final = 5.0

_log = structlog.get_logger("tidegate.log")


class LogMoveWatch:
    """See the module's head.  log: the coordinator's log."""

    def __init__(self, coordinator: Coordinator, log: MovableLog) -> None:
        self._coordinator = coordinator
        self._log = log
        self._changed = trio.Event()
        coordinator.listen(self._on_change, LOG_MOVES)

    def _on_change(self, _touched: set[int]) -> None:
        self._changed.set()

    def _offer(self) -> LogMove | None:
        if not self._coordinator.incarnation:
            return None  # a gateway that is not registered yet is not asked, and could not answer
        return self._coordinator.state.log_moves.offer_to(self._coordinator.incarnation)

    def _is_offered(self) -> bool:
        return self._coordinator.state.log_moves.present is not None

    async def run(self) -> None:
        """Look and answer; forever."""
        while True:
            offer = self._offer()
            if offer is not None:
                await self._answer(offer)
            elif not self._is_offered():
                await self._log.forget_next()
            await self._wait()

    async def _wait(self) -> None:
        """Wait for a change, or for IDLE_SECONDS.

        While a move is under way, any entry may be a reason to answer: the log answers again, or
        this gateway is registered now.
        """
        tables = EVERY_ENTRY if self._is_offered() else LOG_MOVES
        with (
            self._coordinator.listening(self._on_entry, tables),
            trio.move_on_after(IDLE_SECONDS),
        ):
            await self._changed.wait()
        self._changed = trio.Event()

    def _on_entry(self, _touched: set[int]) -> None:
        if self._offer() is not None:
            self._changed.set()

    async def _answer(self, offer: LogMove) -> None:
        complaint = await self._complaint(offer)
        if complaint:
            _log.warning(
                "the metadata log cannot be moved: the new one is of no use", why=complaint
            )
        try:
            await self._coordinator.propose(AnswerOffer(offer.move_id, complaint))
        except (CoordinatorUnavailable, ProposalFailed) as error:
            _log.warning("could not answer to a move of the log; trying again", error=str(error))

    async def _complaint(self, offer: LogMove) -> str:
        """Return why the copy cannot be used here; "" if it can."""
        if not self._log.capabilities.can_append:
            return ""  # it reads through other gateways, which follow the move
        problem = "it does not answer"
        with trio.move_on_after(LOOK_SECONDS):
            while self._coordinator.state.log_moves.present is offer:
                try:
                    if await self._log.prepare(offer):
                        return ""
                    problem = "it does not hold what is copied"
                except LogUnavailable as error:
                    problem = f"it does not answer: {error}"
                except (LogCorrupt, LogMisconfigured) as error:
                    return str(error)
                await trio.sleep(RETRY_SECONDS)
        return problem
