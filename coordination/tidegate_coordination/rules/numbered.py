"""A proposal with a name: decided once, whoever is asked to, and however often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ..events import Proposed
from .proposal import GATEWAYS, Decided, Proposal, View


class NotDecided(Enum):
    """Why there is no answer; nothing came of the proposal, or its author has the answer."""

    ENDED = "its author's incarnation has ended"
    ACKNOWLEDGED = "its author had said that it asks no more"


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """A proposal of `incarnation`, the `number`-th; see events.Proposed for the rest.

    encode_answer: of the proposal's own answers.  Answer: such an encoded one, or NotDecided.
    """

    incarnation: int
    number: int
    acknowledged: int
    clock_ms: int
    uptime_ms: int
    proposal: Proposal[Any]
    encode_answer: Callable[[Any], bytes] = field(repr=False)

    @property
    def _scope(self) -> frozenset[str]:
        # Sent twice, it may stand twice in a queue: the second waits until the first is folded.
        return frozenset({f"proposal {self.incarnation} {self.number}"})

    @property
    def reads(self) -> frozenset[str]:
        """Whether its author lives, beside what the proposal reads."""
        return self.proposal.reads | self._scope | {GATEWAYS}

    @property
    def writes(self) -> frozenset[str]:
        """What the proposal writes, and that it was decided."""
        return self.proposal.writes | self._scope

    def decide(self, view: View) -> Decided[bytes | NotDecided]:
        """Give the first answer again, if there is one.

        A refusal is not kept: nothing came of it, and it may be decided anew.
        """
        state = view.state
        if not state.gateways.is_live(self.incarnation):
            return Decided((), NotDecided.ENDED)
        if state.proposals.is_acknowledged(self.incarnation, self.number):
            return Decided((), NotDecided.ACKNOWLEDGED)
        known = state.proposals.answer(self.incarnation, self.number)
        if known is not None:
            return Decided((), known)
        authored = replace(view, writer=self.incarnation, appender=view.writer)
        decided = self.proposal.decide(authored)
        answer = self.encode_answer(decided.answer)
        if not decided.events:
            return Decided((), answer)
        proposed = Proposed(
            self.incarnation,
            self.number,
            self.acknowledged,
            self.clock_ms,
            self.uptime_ms,
            answer,
        )
        return Decided((proposed, *decided.events), answer)
