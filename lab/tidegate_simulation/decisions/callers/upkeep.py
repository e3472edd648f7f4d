"""Gateways that drain, leave and tell their settings, and moves of the log."""

from __future__ import annotations

from typing import Any, Final

from tidegate_coordination.rules.draining import (
    DrainGateway,
    Marked,
    ReportDrained,
    ResumeGateway,
)
from tidegate_coordination.rules.gateways import Leave, StartDraining, TellSettings
from tidegate_coordination.rules.log_moves import (
    AnswerOffer,
    BeginLogMove,
    CancelLogMove,
    OfferLog,
    SealLog,
)
from tidegate_coordination.rules.proposal import Proposal

from ..decider import Decider
from .known import Caller, Known

_COMPLAINT_SHARE: Final = 0.1
_CANCEL_SHARE: Final = 0.05
_HASTE: Final = 0.1


class UpkeepCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.drain, 1),
            (self.resume, 2),
            (self.report_drained, 1),
            (self.leave, 1),
            (self.tell_settings, 2),
            (self.begin_move, 1),
            (self.go_on_with_move, 6),
        )

    def drain(self, decider: Decider) -> None:
        """Drain a gateway at an operator's command, or because the gateway itself drains."""
        if self._rng.random() < 0.3:
            self._world.ask(decider, StartDraining(decider.incarnation))
            return
        node_id = self._rng.choice(self._world.deciders).number

        def judged(answer: Marked, is_told: bool) -> None:
            self._world.lives.marked(node_id, answer, drains=True)

        self._world.ask(decider, DrainGateway(node_id, self._rng.random() < 0.2), judged)

    def resume(self, decider: Decider) -> None:
        """Let a gateway take new work again."""
        node_id = self._rng.choice(self._world.deciders).number

        def judged(answer: Marked, is_told: bool) -> None:
            self._world.lives.marked(node_id, answer, drains=False)

        self._world.ask(decider, ResumeGateway(node_id), judged)

    def report_drained(self, decider: Decider) -> None:
        """Report that no work is left."""
        self._world.ask(decider, ReportDrained())

    def leave(self, decider: Decider) -> None:
        """End the incarnation of a gateway."""
        if self._rng.random() < 0.3:
            self._world.ask(decider, Leave(decider.incarnation))

    def tell_settings(self, decider: Decider) -> None:
        """Tell static settings."""
        settings = {"log.retention.ms": str(self._rng.choice((1_000, 2_000)))}
        self._world.ask(decider, TellSettings(decider.incarnation, settings))

    # -- moves of the log ---------------------------------------------------------------------

    def begin_move(self, decider: Decider) -> None:
        """Begin a move of the log."""
        self._world.ask(decider, BeginLogMove(self._rng.randbytes(4).hex()))

    def go_on_with_move(self, decider: Decider) -> None:
        """Do the next step of the move that this gateway sees, or a step that comes too early."""
        move = decider.state.log_moves.present
        if move is None:
            return
        proposal: Proposal[Any]
        if decider.state.log_moves.offer_to(decider.incarnation) is not None:
            is_bad = self._rng.random() < _COMPLAINT_SHARE
            proposal = AnswerOffer(move.move_id, "no" if is_bad else "")
        elif self._rng.random() < _CANCEL_SHARE:
            proposal = CancelLogMove(self._rng.choice(("", move.move_id)))
        elif not move.offered_at and self._rng.random() > _HASTE:
            proposal = OfferLog(move.move_id, "memory:there", "copy")
        else:
            proposal = SealLog(move.move_id)
        self._world.ask(decider, proposal)
