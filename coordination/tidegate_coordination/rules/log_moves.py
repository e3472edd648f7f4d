"""Moving the metadata log: begin, offer, answer, seal, cancel (decision 13)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..events.log_moves import (
    LogMoveAnswered,
    LogMoveBegun,
    LogMoveCancelled,
    LogMoved,
    LogMoveOffered,
)
from ..state.log_moves import LogMove
from .proposal import GATEWAYS, Decided, View

LOG_MOVE = "log move"
_MOVE = frozenset({LOG_MOVE})
# A move ends with its mover's incarnation, and a gateway that registers must check the copy, too.
_MOVE_AND_GATEWAYS = frozenset({LOG_MOVE, GATEWAYS})


class MoveStep(Enum):
    """The result of a step of a move."""

    DONE = "done"
    NOT_READY = "gateways have not said that they can use the new log"
    OVER = "the move was cancelled, or another began"


def present_move(view: View, move_id: str) -> LogMove | None:
    """Return a move if it is under way."""
    move = view.state.log_moves.present
    return move if move is not None and move.move_id == move_id else None


@dataclass(frozen=True, slots=True)
class BeginLogMove:
    """Begin a move, instead of any that is under way.  Answer: None."""

    move_id: str
    reads: frozenset[str] = field(default=_MOVE_AND_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_MOVE, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        return Decided((LogMoveBegun(self.move_id, view.writer),), None)


@dataclass(frozen=True, slots=True)
class OfferLog:
    """Have all gateways check the copy; copy: see LogMoveOffered.  Answer: a MoveStep."""

    move_id: str
    url: str
    copy: str
    reads: frozenset[str] = field(default=_MOVE_AND_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_MOVE, init=False)

    def decide(self, view: View) -> Decided[MoveStep]:
        """See the class."""
        if present_move(view, self.move_id) is None:
            return Decided((), MoveStep.OVER)
        return Decided((LogMoveOffered(self.move_id, self.url, self.copy),), MoveStep.DONE)


@dataclass(frozen=True, slots=True)
class AnswerOffer:
    """Report whether the writer can use the copy; complaint: why not, "" if it can.  Answer:
    None.
    """

    move_id: str
    complaint: str
    reads: frozenset[str] = field(default=_MOVE_AND_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_MOVE, init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        move = present_move(view, self.move_id)
        if move is None or move.answers.get(view.writer) == self.complaint:
            return Decided((), None)
        return Decided((LogMoveAnswered(self.move_id, view.writer, self.complaint),), None)


@dataclass(frozen=True, slots=True)
class SealLog:
    """Seal the log here, if every live gateway can use the new one.  Answer: a MoveStep."""

    move_id: str
    reads: frozenset[str] = field(default=_MOVE_AND_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_MOVE, init=False)

    def decide(self, view: View) -> Decided[MoveStep]:
        """See the class."""
        if view.state.log_moves.last.move_id == self.move_id:
            return Decided((), MoveStep.DONE)
        move = present_move(view, self.move_id)
        if move is None:
            return Decided((), MoveStep.OVER)
        ready = [move.answers.get(each.incarnation) == "" for each in view.state.gateways.brokers()]
        if not move.offered_at or not all(ready):
            return Decided((), MoveStep.NOT_READY)
        return Decided((LogMoved(self.move_id),), MoveStep.DONE)


@dataclass(frozen=True, slots=True)
class CancelLogMove:
    """End a move without moving; move_id: "" for any.  Answer: whether one was under way."""

    move_id: str = ""
    reads: frozenset[str] = field(default=_MOVE_AND_GATEWAYS, init=False)
    writes: frozenset[str] = field(default=_MOVE, init=False)

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        move = view.state.log_moves.present
        if move is None or self.move_id not in ("", move.move_id):
            return Decided((), False)
        return Decided((LogMoveCancelled(move.move_id),), True)
