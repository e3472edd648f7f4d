"""The target and progress of a move of the metadata log (decision 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..events.log_moves import (
    LogMoveAnswered,
    LogMoveBegun,
    LogMoveCancelled,
    LogMoved,
    LogMoveOffered,
)
from .broken import expect


@dataclass(slots=True)
class LogMove:
    """A move under way.

    mover: the incarnation that copies; the move ends with it.  offered_at: position of the entry
    that offers the copy, 0 before.  answers: the gateways' complaints, by incarnation.  copy: see
    LogMoveOffered.
    """

    move_id: str
    mover: int
    url: str = ""
    offered_at: int = 0
    answers: dict[int, str] = field(default_factory=dict[int, str])
    copy: str = ""


class LogMoveTable:
    """present: the move under way.

    last, sealed_at: the last committed move, and the last position of the log that it left; 0 if
    there was none.  is_copy: the log that was read is an unfinished copy of another one.
    """

    def __init__(self) -> None:
        self.present: LogMove | None = None
        self.last = LogMove("", 0)
        self.sealed_at = 0
        self.is_copy = False

    def is_target_of(self, move: LogMove, sealed_at: int) -> bool:
        """Return whether a log whose snapshot has this table is the target of a move.

        sealed_at: the last position of the old log, if it has ended.  The old log and earlier ones
        have neither the copy's snapshot nor a snapshot from after their own end.
        """
        if self.is_copy and self.present is not None and self.present.move_id == move.copy:
            return True
        return self.last.move_id == move.move_id or self.sealed_at >= sealed_at > 0

    def is_settled(self, sealed_at: int) -> bool:
        """Return whether no move is under way, and the last one sealed its log there."""
        return self.present is None and self.sealed_at == sealed_at

    def offer_to(self, incarnation: int) -> LogMove | None:
        """Return the move whose copy a gateway has not checked yet."""
        move = self.present
        if move is None or not move.offered_at or incarnation in move.answers:
            return None
        return move

    def fold_begun(self, event: LogMoveBegun) -> None:
        """See the event."""
        self.present = LogMove(event.move_id, event.incarnation)

    def fold_offered(self, event: LogMoveOffered, position: int) -> None:
        """See the event."""
        move = self._present(event.move_id)
        move.url, move.copy, move.offered_at = event.url, event.copy, position

    def fold_answered(self, event: LogMoveAnswered) -> None:
        """See the event."""
        self._present(event.move_id).answers[event.incarnation] = event.complaint

    def fold_moved(self, event: LogMoved, position: int) -> None:
        """See the event."""
        move = self._present(event.move_id)
        expect(bool(move.offered_at), f"log move {event.move_id} ends before it was offered")
        self.last, self.sealed_at = move, position
        self.present = None
        self.is_copy = False

    def fold_cancelled(self, event: LogMoveCancelled) -> None:
        """See the event."""
        self._present(event.move_id)
        self.present = None

    def _present(self, move_id: str) -> LogMove:
        move = self.present
        if move is None or move.move_id != move_id:
            expect(False, f"log move {move_id} is not under way")
        assert move is not None
        return move

    def end(self, incarnation: int) -> None:
        """End the move of an incarnation that has ended."""
        if self.present is not None and self.present.mover == incarnation:
            self.present = None

    def forget(self) -> None:
        """A restored log is a new log."""
        self.present = None
        self.last, self.sealed_at = LogMove("", 0), 0
        self.is_copy = False

    def encode(self, *, as_copy: bool) -> object:
        """Return the whole table as builtins."""
        return {
            "present": None if self.present is None else _row(self.present),
            "last": _row(self.last),
            "sealed_at": self.sealed_at,
            "is_copy": as_copy or self.is_copy,
        }

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        if not table:
            return  # written by an older release
        if table["present"] is not None:
            self.present = _move(table["present"])
        self.last = _move(table["last"])
        self.sealed_at = table["sealed_at"]
        self.is_copy = table["is_copy"]


def _row(move: LogMove) -> list[object]:
    answers = sorted(move.answers.items())
    return [move.move_id, move.mover, move.url, move.offered_at, answers, move.copy]


def _move(row: Sequence[Any]) -> LogMove:
    move_id, mover, url, offered_at, answers, copy = row
    return LogMove(move_id, mover, url, offered_at, dict(answers), copy)
