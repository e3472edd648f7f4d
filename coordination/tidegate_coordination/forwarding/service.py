"""Decides proposals of other gateways, in the queue of this gateway's own.

This gateway never forwards them, so gateways cannot forward in a circle.  Any gateway that reaches
the log may be asked; it need not be the leader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import trio

from ..coordinator.coordinator import Coordinator, Failure, ProposalFailed, Waiting
from ..rules.gateways import CannotJoin, NodeIdTaken, Register
from ..rules.numbered import Asked, Failing, NotDecided, Numbered, failure_text
from ..rules.proposal import Proposal
from ..rules.security.permitted import permitted
from . import codec
from .messages import VERSION, Answered, Ask, Outcome, Sent, Told

ANSWER_SECONDS: Final = 1.8  # less than the timeout of the asking gateway
MAX_WAITING_BYTES: Final = 64 << 20

_NOT_DECIDED: Final = {
    NotDecided.ENDED: Outcome.ENDED,
    NotDecided.ACKNOWLEDGED: Outcome.ACKNOWLEDGED,
}


class OtherCluster(Exception):
    """The question is from a gateway of another cluster."""


class ProposalService:
    """Decides the proposals of other gateways.  served: how many, for metrics."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._waiting: dict[tuple[int, int], _Held] = {}
        self._waiting_bytes = 0
        self.served = 0

    async def answer(self, ask: Ask) -> Told:
        """Decide the proposals of a question, in order; return what became of each.

        After ANSWER_SECONDS, answer UNKNOWN for the undecided proposals and withdraw them until
        they are asked for again: their author may no longer wait for them (decision 22).

        Raises:
          OtherCluster: see there.
        """
        state = self._coordinator.state
        if ask.cluster_id != state.cluster_id:
            raise OtherCluster(
                f"a gateway of cluster {ask.cluster_id} asked one of cluster {state.cluster_id}:"
                " check the addresses of metadata.log"
            )
        self.served += len(ask.proposals)
        round_ = _Round(len(ask.proposals))
        proposals = iter(ask.proposals)
        for sent in proposals:
            if not self._submit(ask, sent, round_):
                break
        for sent in proposals:  # they must not overtake the refused one
            round_.note(sent.number, Outcome.UNKNOWN, b"")
        try:
            with trio.move_on_after(ANSWER_SECONDS):
                await round_.is_over.wait()
        finally:
            self._let_go(ask, round_)
        answers = [
            Answered(each.number, *round_.answers.get(each.number, (Outcome.UNKNOWN, b"")))
            for each in ask.proposals
        ]
        return Told(VERSION, state.position, answers)

    def _let_go(self, ask: Ask, round_: _Round) -> None:
        """Withdraw undecided proposals, except those that a later question asks for, too."""
        for sent in ask.proposals:
            held = self._waiting.get((ask.incarnation, sent.number))
            if held is None or held.round_ is not round_:
                continue
            if held.waiting is not None and self._coordinator.withdraw_here(held.waiting):
                held.end()

    def _submit(self, ask: Ask, sent: Sent, round_: _Round) -> bool:
        """Take a proposal; False if its author has to ask for it again."""
        note = partial(round_.note, sent.number)
        if sent.tenant:  # this release would decide it for the names of tenant 0
            note(Outcome.NEWER, b"")
            return False
        try:
            proposal = permitted(codec.decode_proposal(sent.kind, sent.body), sent.rights_as_of)
        except codec.UnknownKind:
            note(Outcome.NEWER, b"")
            return False
        except codec.Unreadable as error:
            if not ask.incarnation or not sent.again:
                note(Outcome.FAILED, str(error).encode())
                return True
            proposal = Failing(str(error))  # a gateway of a newer release may hold and decide it
        held = self._waiting.get((ask.incarnation, sent.number)) if ask.incarnation else None
        if held is not None:
            held.ask_again(sent, round_)
            return True
        if self._waiting_bytes + len(sent.body) > MAX_WAITING_BYTES:
            note(Outcome.UNKNOWN, b"")
            return False
        if ask.incarnation:
            self._submit_numbered(ask, sent, proposal, round_)
        else:
            self._submit_unnumbered(proposal, len(sent.body), note)
        return True

    def _submit_numbered(
        self, ask: Ask, sent: Sent, proposal: Proposal[Any], round_: _Round
    ) -> None:
        def end() -> None:
            del self._waiting[ask.incarnation, sent.number]
            self._waiting_bytes -= len(sent.body)

        asked = Asked(sent.again or sent.is_withdrawn, sent.is_withdrawn)
        held = self._waiting[ask.incarnation, sent.number] = _Held(end, round_, asked)
        self._waiting_bytes += len(sent.body)
        numbered = Numbered(
            ask.incarnation,
            sent.number,
            ask.acknowledged,
            ask.clock_ms,
            ask.uptime_ms,
            proposal,
            codec.encode,
            asked,
            sent.before_ms,
        )

        def settle(outcome: Outcome, body: bytes) -> None:
            end()
            held.round_.note(sent.number, outcome, body)

        def deliver(answer: bytes | NotDecided) -> None:
            if isinstance(answer, NotDecided):
                settle(_NOT_DECIDED[answer], b"")
            elif not asked.again or self._is_kept(numbered):
                settle(*_told(answer))
            elif held.is_let_go:
                settle(Outcome.UNKNOWN, b"")
            else:
                # The author asked other gateways while this refusal was decided, and they could
                # decide otherwise. Decide again, and keep the answer in the log.
                held.waiting = self._coordinator.submit_here(numbered, deliver, fail)

        def fail(failure: Failure) -> None:
            if held.is_let_go:
                settle(Outcome.UNKNOWN, b"")
            else:
                self._fail(settle, failure)

        held.waiting = self._coordinator.submit_here(numbered, deliver, fail)

    def _is_kept(self, numbered: Numbered) -> bool:
        proposals = self._coordinator.state.proposals
        return proposals.answer(numbered.incarnation, numbered.number) is not None

    def _submit_unnumbered(
        self, proposal: Proposal[Any], size_bytes: int, note: Callable[[Outcome, bytes], None]
    ) -> None:
        """Accept only Register from an author that is not registered."""
        if not isinstance(proposal, Register) or not proposal.before:
            return note(Outcome.ENDED, b"")
        self._waiting_bytes += size_bytes  # each copy counts

        def settle(outcome: Outcome, body: bytes) -> None:
            self._waiting_bytes -= size_bytes
            note(outcome, body)

        def deliver(answer: int | NodeIdTaken | CannotJoin) -> None:
            settle(Outcome.ANSWERED, codec.encode(answer))

        self._coordinator.submit_here(proposal, deliver, partial(self._fail, settle))

    def _fail(self, note: Callable[[Outcome, bytes], None], failure: Failure) -> None:
        if not isinstance(failure, ProposalFailed):
            return note(Outcome.UNKNOWN, b"")
        # A gateway that has left writes no more, but another gateway can decide.
        outcome = Outcome.LEFT if self._coordinator.has_left else Outcome.FAILED
        note(outcome, str(failure).encode())


def _told(answer: bytes) -> tuple[Outcome, bytes]:
    failure = failure_text(answer)
    return (Outcome.ANSWERED, answer) if failure is None else (Outcome.FAILED, failure.encode())


@dataclass(slots=True)
class _Held:
    """A waiting proposal.  end: forgets it; round_: the last question that asked for it."""

    end: Callable[[], None]
    round_: _Round
    asked: Asked
    waiting: Waiting[bytes | NotDecided] | None = None

    @property
    def is_let_go(self) -> bool:
        """Whether no question asks for it any more."""
        return self.waiting is not None and self.waiting.is_withdrawn

    def ask_again(self, sent: Sent, round_: _Round) -> None:
        """Note another question for the proposal.

        Other gateways may hold a copy now, so the log keeps a refusal or a failure.
        """
        self.round_ = round_
        self.asked.again = True
        self.asked.is_withdrawn |= sent.is_withdrawn
        if self.waiting is not None:
            self.waiting.is_withdrawn = False


class _Round:
    """The answers to one question, as they come."""

    def __init__(self, count: int) -> None:
        self._open = count
        self.answers: dict[int, tuple[Outcome, bytes]] = {}
        self.is_over = trio.Event()
        if not count:
            self.is_over.set()

    def note(self, number: int, outcome: Outcome, body: bytes) -> None:
        self.answers[number] = (outcome, body)
        self._open -= 1
        if not self._open:
            self.is_over.set()
