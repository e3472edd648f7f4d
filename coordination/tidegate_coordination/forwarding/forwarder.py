"""A coordinator that sends its proposals to a leader, which appends for many.

    proposals --number--> outbox --POST--> leader: decide, append --> answers
                             |                                           |
                             +-- this gateway leads: decide and append   read the log up to there,
                                 here, as ever                           then answer

For logs that bear few writers (docs/architecture.md, "Forwarding"), and for a while where a gateway
loses too many races (contention.py): until then it decides and appends by itself, without numbers.

One question is under way at a time, and what comes meanwhile travels in the next.  A proposal has a
number, and is sent again under that number until something is known of it: to the next gateway by
rendezvous, when the first does not answer, or to the log itself.  Numbers make it come true once
(state/proposals.py), and answers are given in the order of submits.  What had no answer in time is
asked for again by halves, so a slow line ends no gateway.

A gateway that does not reach the log (`forward:`) never decides by itself.  Until it is registered
its proposals have no number, for a number needs an incarnation; see rules/gateways.Register.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, TypeVar

import structlog
import trio

from ..coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    Failure,
    ProposalFailed,
    Waiting,
)
from ..log.access import GatewayFenced
from ..log.metadata_log import MetadataLog
from ..rules.gateways import Leave, Register
from ..rules.numbered import NotDecided, Numbered, failure_text
from ..rules.proposal import Proposal
from ..state.cluster import ClusterState
from ..state.gateways import Gateway
from . import codec
from .contention import Contention
from .leadership import Leadership
from .messages import VERSION, Answered, Ask, Outcome, Sent
from .outbox import UNNUMBERED, Outbox, Outgoing
from .peers import Peers, PeerUnavailable

ASK_SECONDS: Final = 2.0
REACH_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.1
SERVING_SECONDS: Final = 1.0

Answer = TypeVar("Answer")

_log = structlog.get_logger("tidegate.forwarding")


@dataclass(slots=True)
class ForwardingCounters:
    """What was forwarded, for metrics."""

    asked: int = 0
    proposals: int = 0
    unanswered: int = 0


class ForwardingCoordinator(Coordinator):
    """See the module's head.

    peers: how the others are asked.  contention: when to ask them; None for always.
    """

    def __init__(
        self,
        log: MetadataLog,
        state: ClusterState,
        peers: Peers,
        *,
        contention: Contention | None = None,
        rng: Random,
        wall_clock: Callable[[], float],
        deadline_seconds: float = 30.0,
        away_seconds: float = float("inf"),
    ) -> None:
        super().__init__(
            log,
            state,
            rng=rng,
            wall_clock=wall_clock,
            deadline_seconds=deadline_seconds,
            away_seconds=away_seconds,
        )
        self.counters = ForwardingCounters()
        self.leadership = Leadership(state, reaches_log=log.capabilities.can_append)
        self._peers = peers
        self.contention = contention
        self._reaches_log = log.capabilities.can_append
        self._outbox = Outbox()
        self._outgoing = trio.Event()
        # By proposals of this gateway's own: what stands in its queue for them.
        self._here: dict[Waiting[Any], tuple[Outgoing, Waiting[Any]]] = {}
        self._none_here = trio.Event()
        self._unheard_since: float | None = None
        self._serves_until = float("-inf")
        self._folded = trio.Event()
        self.listen(self._on_change)

    def _on_change(self, _touched: set[int]) -> None:
        folded, self._folded = self._folded, trio.Event()
        folded.set()
        if self.incarnation:
            self._leader()

    def _leader(self) -> Gateway | None:
        """Return who is to be asked now; None for nobody: decide here, or wait."""
        found = self.leadership.other(self.incarnation)
        if self._decides_alone:
            return None
        # Who loses its races leads nobody, itself least of all.
        return found if self.contention is None else self.leadership.another(self.incarnation)

    @property
    def _decides_alone(self) -> bool:
        return self._reaches_log and self.contention is not None and not self.contention.holds

    # -- proposals on their way -------------------------------------------------------------------

    def _enqueue(self, waiting: Waiting[Any]) -> None:
        kind = codec.kind_of(waiting.proposal)
        if kind is None:
            super()._enqueue(waiting)
            return
        is_free = self._reaches_log and self._outbox.is_empty
        if is_free and self._needs_no_number:
            self._decide_unnumbered(waiting, kind)
            return
        outgoing = Outgoing(self._outbox.take_number(), kind, waiting)
        if is_free and self._leader() is None:
            self._take_back(outgoing)
        else:
            self._send(outgoing)

    def submit_here(
        self,
        proposal: Proposal[Answer],
        deliver: Callable[[Answer], None],
        fail: Callable[[Failure], None],
    ) -> Waiting[Answer]:
        """See Coordinator; with numbers, this gateway's own may share an entry with the others'."""
        self._serves_until = trio.current_time() + SERVING_SECONDS
        return super().submit_here(proposal, deliver, fail)

    @property
    def _needs_no_number(self) -> bool:
        if not self.incarnation:
            return self.contention is None or not self.contention.holds
        return self._decides_alone and trio.current_time() >= self._serves_until

    def _send(self, outgoing: Outgoing) -> None:
        self._outbox.add(outgoing)
        self._outgoing.set()

    def _note_lost_race(self) -> None:
        """See Coordinator."""
        contention = self.contention
        if contention is None or not contention.lost():
            return
        if self.leadership.another(self.incarnation) is not None:
            contention.leave_it()
            self._hand_over()

    def _hand_over(self) -> None:
        """Send what is this gateway's own in the queue, before all that waits to be sent.

        What has no number is known to nobody else; what has one keeps it.
        """
        own = {inner: outgoing for outgoing, inner in self._here.values()}
        handed = [own[each] for each in self._queue if each in own]
        self._queue = deque(each for each in self._queue if each not in own)
        for outgoing in handed:
            del self._here[outgoing.waiting]
            if outgoing.number == UNNUMBERED:
                outgoing.number = self._outbox.take_number()
        self._outbox.add_first(handed)
        self._note_here()
        self._outgoing.set()

    def _note_won_race(self) -> None:
        if self.contention is not None:
            self.contention.won()

    def _withdraw(self, waiting: Waiting[Any]) -> None:
        """See Coordinator; what was sent is asked for until it is known whether it came true."""
        if waiting in self._here:
            outgoing, inner = self._here[waiting]
            outgoing.asked.is_withdrawn = True
            inner.is_withdrawn = not outgoing.was_sent
            if inner.is_withdrawn and self._forget(inner):
                self._end_here(waiting)
            return
        self._outbox.withdraw(waiting)
        super()._withdraw(waiting)

    @property
    def _silent_since(self) -> float | None:
        return _earlier(super()._silent_since, self._unheard_since)

    @property
    def _unsure_since(self) -> float | None:
        return _earlier(super()._unsure_since, self._unheard_since)

    def _decide_unnumbered(self, waiting: Waiting[Any], kind: str) -> None:
        """Give a proposal to this gateway's own queue; no other gateway ever hears of it."""

        def deliver(answer: object) -> None:
            self._end_here(waiting)
            waiting.deliver(answer)

        def fail(failure: Failure) -> None:
            self._end_here(waiting)
            waiting.fail(failure)

        inner = Waiting(waiting.proposal, deliver, fail, before_ms=waiting.before_ms)
        self._here[waiting] = (Outgoing(UNNUMBERED, kind, waiting), inner)
        self._decide_here(inner)

    def _number_here(self, outgoing: Outgoing) -> None:
        """Give a proposal to this gateway's own queue, under its number."""
        waiting = outgoing.waiting

        def deliver(answer: bytes | NotDecided) -> None:
            self._end_here(waiting)
            if isinstance(answer, NotDecided):
                waiting.fail(ProposalFailed(answer.value))
            else:
                _deliver(outgoing, answer)

        def fail(failure: Failure) -> None:
            self._end_here(waiting)
            waiting.fail(failure)

        proposal = Numbered(
            self.incarnation,
            outgoing.number,
            self._outbox.acknowledged,
            int(self._wall_clock() * 1000),
            int(trio.current_time() * 1000),
            waiting.proposal,
            codec.encode,
            outgoing.asked,
            waiting.before_ms,
        )
        inner = Waiting(proposal, deliver, fail)
        self._here[waiting] = (outgoing, inner)
        self._decide_here(inner)

    def _end_here(self, waiting: Waiting[Any]) -> None:
        outgoing, _ = self._here.pop(waiting)
        self._outbox.end(outgoing.number)
        self._note_here()

    def _note_here(self) -> None:
        if not self._here:
            self._none_here.set()
            self._none_here = trio.Event()

    # -- asking -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """See Coordinator."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            while True:
                await self._outgoing.wait()
                self._outgoing = trio.Event()
                while not self._outbox.is_empty:
                    await self._send_some()

    async def _send_some(self) -> None:
        """Let the outbox's head be decided, by whoever is to do it now."""
        while self._here:  # or what comes behind could overtake it
            await self._none_here.wait()
        if not self._outbox.asking:
            self._take()
        if not self._outbox.asking:
            return
        found = self._leader()
        if found is not None:
            await self._ask(found)
        elif self._reaches_log:
            self._unheard_since = None
            for each in self._outbox.hand_back():
                self._take_back(each)
        else:
            self._unheard_since = self._unheard_since or trio.current_time()
            _log.warning("no gateway is known that reaches the metadata log; trying again")
            await trio.sleep(PAUSE_SECONDS * 10)
            self._look_again()

    def _take_back(self, outgoing: Outgoing) -> None:
        if self.incarnation:
            self._number_here(outgoing)
            return
        self._outbox.end(outgoing.number)  # which needs an incarnation
        self._decide_unnumbered(outgoing.waiting, outgoing.kind)

    def _take(self) -> None:
        for each in self._outbox.take(lambda it: codec.encode_proposal(self._dated(it))):
            text = f"a proposal of {len(each.body)} bytes is too large for other gateways"
            each.waiting.fail(ProposalFailed(text))

    def _dated(self, proposal: Proposal[Any]) -> Proposal[Any]:
        """See Register.before."""
        if not isinstance(proposal, Register):
            return proposal
        return replace(proposal, before=self.state.gateways.next_incarnation)

    async def _ask(self, found: Gateway) -> None:
        asking = self._outbox.asking
        self.counters.asked += 1
        self.counters.proposals += len(asking)
        self._unheard_since = self._unheard_since or trio.current_time()
        question = Ask(
            VERSION,
            self.state.cluster_id,
            self.incarnation,
            self._outbox.acknowledged,
            int(self._wall_clock() * 1000),
            int(trio.current_time() * 1000),
            [_sent(each) for each in asking],
        )
        for each in asking:
            each.asked.again = True
        try:
            told = await self._peers.ask(found, question, ASK_SECONDS)
        except PeerUnavailable as error:
            self.counters.unanswered += 1
            _log.warning("no answer from the leader", node_id=found.node_id, error=str(error))
            self._outbox.ask_for_less()
            await self._suspect(found)
            return
        self._unheard_since = None
        if not await self._reach(told.position):
            _log.warning("the log has not what was answered", node_id=found.node_id)
            await self._suspect(found)
            return
        await self._settle(found, {each.number: each for each in told.answers})

    async def _suspect(self, found: Gateway) -> None:
        """Ask another one for a while, after a look at who lives."""
        self.leadership.suspects.suspect(found.incarnation)
        if self._reaches_log:
            self._unheard_since = None  # there is another way
        self._look_again()
        await trio.sleep(PAUSE_SECONDS)

    def _look_again(self) -> None:
        self._log_grew = True
        self._work.set()

    async def _reach(self, position: int) -> bool:
        """Wait until the replica holds what was answered; False if that is never."""
        until = trio.current_time() + REACH_SECONDS
        while self.state.position < position and trio.current_time() < until:
            folded = self._folded
            self._look_again()
            with trio.move_on_after(PAUSE_SECONDS):
                await folded.wait()
        return self.state.position >= position

    async def _settle(self, found: Gateway, answers: dict[int, Answered]) -> None:
        """Answer in order; what nothing is known of stays to be asked again, with all behind it."""
        asking = self._outbox.asking
        while asking:
            outgoing = asking[0]
            answer = answers.get(outgoing.number)
            if answer is None or not self._settle_one(outgoing, answer):
                await self._suspect(found)
                return
            del asking[0]
        self.leadership.suspects.trust(found.incarnation)

    def _settle_one(self, outgoing: Outgoing, answer: Answered) -> bool:
        """Give one answer; False when it is none."""
        outcome = answer.outcome
        if outcome == Outcome.ANSWERED:
            self._outbox.end(outgoing.number)
            _deliver(outgoing, answer.body)
            return True
        if outcome == Outcome.ENDED:
            self._note_end(outgoing)
            return True
        if outcome not in (Outcome.FAILED, Outcome.ACKNOWLEDGED, Outcome.NEWER):
            return False
        if outcome == Outcome.NEWER and self._reaches_log:
            return False
        self._outbox.end(outgoing.number)
        outgoing.waiting.fail(ProposalFailed(_text(answer)))
        return True

    def _note_end(self, outgoing: Outgoing) -> None:
        if not self._is_leaving:
            raise GatewayFenced(f"incarnation {self.incarnation} was ended by another gateway")
        self._outbox.end(outgoing.number)
        if isinstance(outgoing.waiting.proposal, Leave):
            outgoing.waiting.deliver(None)  # it had come true before
        else:
            outgoing.waiting.fail(ProposalFailed("this gateway has left and writes no more"))


def _sent(each: Outgoing) -> Sent:
    asked, before_ms = each.asked, each.waiting.before_ms
    return Sent(each.number, each.kind, each.body, asked.again, asked.is_withdrawn, before_ms)


def _deliver(outgoing: Outgoing, body: bytes) -> None:
    """Give an answer, or tell the failure that was kept in its place.

    One that cannot be read is a newer release's.  It is the same wherever it is asked for, so the
    proposal ends with an outcome that nobody knows, and holds up none behind it.
    """
    failure = failure_text(body)
    if failure is not None:
        outgoing.waiting.fail(ProposalFailed(failure))
        return
    try:
        result = codec.decode_answer(outgoing.kind, body)
    except codec.Unreadable as error:
        _log.error("an answer cannot be read: is it of a newer release?", error=str(error))
        outgoing.waiting.fail(CoordinatorUnavailable(f"the outcome is unknown: {error}"))
    else:
        outgoing.waiting.deliver(result)


def _earlier(one: float | None, other: float | None) -> float | None:
    known = [each for each in (one, other) if each is not None]
    return min(known, default=None)


def _text(answer: Answered) -> str:
    if answer.outcome == Outcome.NEWER:
        return (
            "the gateways that reach the metadata log are of an older release: upgrade them first"
        )
    return answer.body.decode(errors="replace") or "its author had given it up"
