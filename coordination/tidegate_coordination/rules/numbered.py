"""A proposal with a number: decided once, even if its author sends it several times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ..events.cluster import Event, Proposed
from .proposal import GATEWAYS, NOTHING, Decided, Proposal, View


class NotDecided(Enum):
    """Why there is no answer: the proposal changed nothing, or its author has the answer."""

    ENDED = "its author's incarnation has ended"
    ACKNOWLEDGED = "its author had said that it asks no more"


WITHDRAWN = "its author waits for it no more"
TOO_LATE = "it was asked for longer ago than a caller waits"
# No msgpack value begins with this byte, so no answer does. An older release cannot read such an
# answer, and treats the outcome as unknown.
_FAILURE = b"\xc1"


def failure_answer(text: str) -> bytes:
    """Return the kept answer of a proposal that failed."""
    return _FAILURE + text.encode()


def failure_text(answer: bytes) -> str | None:
    """Return why a proposal failed; None for an answer."""
    return answer[1:].decode(errors="replace") if answer.startswith(_FAILURE) else None


@dataclass(slots=True)
class Asked:
    """Facts about a numbered proposal that arrive while it waits to be decided.

    again: it may have been decided before, or may be decided again, so even a refusal is kept.
    is_withdrawn: its author no longer waits for it, so every gateway lets it fail from now on.
    """

    again: bool = False
    is_withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Failing:
    """Replaces a proposal that cannot be decided, and answers its failure.  Never sent."""

    text: str
    reads: frozenset[str] = field(default=NOTHING, init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[bytes]:
        """See failure_answer."""
        return Decided((), failure_answer(self.text))


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """The proposal `number` of `incarnation`; see events.Proposed for the other fields.

    encode_answer: encodes an answer of the proposal.  Answer: an encoded answer, failure_answer(),
    or NotDecided.  before_ms: from this log time on the proposal fails; 0 for no limit.
    """

    incarnation: int
    number: int
    acknowledged: int
    clock_ms: int
    uptime_ms: int
    proposal: Proposal[Any]
    encode_answer: Callable[[Any], bytes] = field(repr=False)
    asked: Asked = field(default_factory=Asked)
    before_ms: int = 0

    @property
    def _scope(self) -> frozenset[str]:
        # A proposal that was sent twice may be queued twice. The second copy waits until the first
        # one is folded.
        return frozenset({f"proposal {self.incarnation} {self.number}"})

    @property
    def reads(self) -> frozenset[str]:
        """The table of gateways, for its author's lease, and the scopes that the proposal reads."""
        return self.proposal.reads | self._scope | {GATEWAYS}

    @property
    def writes(self) -> frozenset[str]:
        """The scopes that the proposal writes, and the record of its decision."""
        return self.proposal.writes | self._scope

    def decide(self, view: View) -> Decided[bytes | NotDecided]:
        """Repeat the first answer, if there is one.

        A refusal of a proposal that was sent once is not kept: it changed no state.
        """
        state = view.state
        if not state.gateways.is_live(self.incarnation):
            return Decided((), NotDecided.ENDED)
        if self._is_acknowledged(view):
            return Decided((), NotDecided.ACKNOWLEDGED)
        known = state.proposals.answer(self.incarnation, self.number)
        if known is not None:
            return Decided((), known)
        events, answer = self._decide_anew(view)
        if not events and not self.asked.again:
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
        return Decided((proposed, *events), answer)

    def _decide_anew(self, view: View) -> tuple[Sequence[Event], bytes]:
        if self.asked.is_withdrawn:
            return (), failure_answer(WITHDRAWN)
        if self.before_ms and view.log_time_ms > self.before_ms:
            return (), failure_answer(TOO_LATE)
        decided = self.proposal.decide(view.of_author(self.incarnation))
        if isinstance(self.proposal, Failing):
            return (), decided.answer
        return decided.events, self.encode_answer(decided.answer)

    @property
    def keeps_failures(self) -> bool:
        """Return whether failing() replaces the proposal if it cannot be decided."""
        return self.asked.again and not isinstance(self.proposal, Failing)

    def failing(self, text: str) -> Numbered:
        """Return the proposal that replaces this one if it cannot be decided."""
        return replace(self, proposal=Failing(text))

    def _is_acknowledged(self, view: View) -> bool:
        """Return whether its author has acknowledged it, in the log or earlier in this entry."""
        said = max(self.acknowledged, view.acknowledged.get(self.incarnation, 0))
        known = view.state.proposals.is_acknowledged(self.incarnation, self.number)
        return known or self.number <= said
