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
    again: it may have been decided before, or be decided again, so that even a refusal is kept.
    """

    incarnation: int
    number: int
    acknowledged: int
    clock_ms: int
    uptime_ms: int
    proposal: Proposal[Any]
    encode_answer: Callable[[Any], bytes] = field(repr=False)
    again: bool = False

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

        A refusal that was asked for once is not kept: nothing came of it.
        """
        state = view.state
        if not state.gateways.is_live(self.incarnation):
            return Decided((), NotDecided.ENDED)
        if self._is_acknowledged(view):
            return Decided((), NotDecided.ACKNOWLEDGED)
        known = state.proposals.answer(self.incarnation, self.number)
        if known is not None:
            return Decided((), known)
        authored = replace(view, writer=self.incarnation, appender=view.writer)
        decided = self.proposal.decide(authored)
        answer = self.encode_answer(decided.answer)
        if not decided.events and not self.again:
            return Decided((), answer)
        view.acknowledged[self.incarnation] = max(
            view.acknowledged.get(self.incarnation, 0), self.acknowledged
        )
        proposed = Proposed(
            self.incarnation,
            self.number,
            self.acknowledged,
            self.clock_ms,
            self.uptime_ms,
            answer,
        )
        return Decided((proposed, *decided.events), answer)

    def _is_acknowledged(self, view: View) -> bool:
        """Tell whether its author had said so, in the log or earlier in this entry."""
        said = max(self.acknowledged, view.acknowledged.get(self.incarnation, 0))
        known = view.state.proposals.is_acknowledged(self.incarnation, self.number)
        return known or self.number <= said
