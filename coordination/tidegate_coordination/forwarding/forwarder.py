"""A coordinator that sends its proposals to a leader, which appends for many.

    proposals --number--> outbox --POST--> leader: decide, append --> answers
                             |                                           |
                             +-- this gateway leads: decide and append   read the log up to there,
                                 here, as ever                           then answer

For logs that bear few writers (design, section 4).  One question is under way at a time, and what
comes meanwhile travels in the next.  A proposal has a number, and is sent again under that number
until something is known of it: to the next gateway by rendezvous, when the first does not answer,
or to the log itself.  Numbers make it come true once (state/proposals.py), and answers are given
in the order of submits.

A gateway that does not reach the log (`forward:`) never decides by itself.  Until it is registered
its proposals have no number, for a number needs an incarnation; see rules/gateways.Register.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import structlog
import trio

from ..coordinator import Coordinator, GatewayFenced, ProposalFailed, Waiting
from ..metadata_log import MetadataLog
from ..rules.gateways import Leave, Register
from ..rules.numbered import NotDecided, Numbered
from ..rules.proposal import Proposal
from ..state.cluster import ClusterState
from ..state.gateways import Gateway
from . import codec
from .leaders import leader
from .messages import MAX_ASK_BYTES, VERSION, Answered, Ask, Outcome, Sent
from .peers import Peers, PeerUnavailable

ASK_SECONDS: Final = 2.0
REACH_SECONDS: Final = 10.0
FIRST_SUSPECT_SECONDS: Final = 5.0
MOST_DOUBLINGS: Final = 4
PAUSE_SECONDS: Final = 0.1

_log = structlog.get_logger("tidegate.forwarding")


@dataclass(slots=True)
class ForwardingCounters:
    """What was forwarded, for metrics."""

    asked: int = 0
    proposals: int = 0
    unanswered: int = 0
    leaderships: int = 0


@dataclass(eq=False, slots=True)
class _Outgoing:
    """A proposal that has its number."""

    number: int
    kind: str
    waiting: Waiting[Any]
    body: bytes = b""
    was_sent: bool = False


class ForwardingCoordinator(Coordinator):
    """See the module's head.  peers: how the others are asked."""

    def __init__(
        self,
        log: MetadataLog,
        state: ClusterState,
        peers: Peers,
        *,
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
        self.leading: bool | None = None
        self._peers = peers
        self._reaches_log = log.capabilities.can_append
        self._outbox: deque[_Outgoing] = deque()
        self._outgoing = trio.Event()
        self._asking: list[_Outgoing] = []
        self._next_number = 1
        self._unanswered: dict[int, None] = {}
        self._here: dict[Waiting[Any], _Outgoing] = {}
        self._none_here = trio.Event()
        self._suspects: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._unheard_since: float | None = None
        self._hooks: list[Callable[[bool], None]] = []
        self._leader: Gateway | None = None
        self._leader_key: object = None
        self._folded = trio.Event()
        self.listen(self._on_change)

    # -- who leads --------------------------------------------------------------------------------

    def on_leadership(self, hook: Callable[[bool], None]) -> None:
        """Call hook(True) when this gateway begins to append for others, hook(False) after."""
        self._hooks.append(hook)

    def _on_change(self, _touched: set[int]) -> None:
        folded, self._folded = self._folded, trio.Event()
        folded.set()
        if self.incarnation:
            self.leader()

    def leader(self) -> Gateway | None:
        """Return who is asked now; None for nobody: decide here, or wait."""
        now = trio.current_time()
        if any(until <= now for until in self._suspects.values()):
            self._suspects = {who: until for who, until in self._suspects.items() if until > now}
        key = (self.state.gateways.version, tuple(self._suspects))
        if key != self._leader_key:
            self._leader_key = key
            self._leader = self._choose()
            self._note_leader(self._leader)
        found = self._leader
        return found if found is None or found.incarnation != self.incarnation else None

    def _choose(self) -> Gateway | None:
        if self._reaches_log:
            return leader(self.state, self._suspects)
        me = self.incarnation
        return leader(self.state, {*self._suspects, me}) or leader(self.state, {me})

    def _note_leader(self, found: Gateway | None) -> None:
        leads = found is not None and found.incarnation == self.incarnation
        if leads == self.leading:
            return
        is_news = leads or self.leading is not None
        self.leading = leads
        if is_news:
            _log.info("appends for others now" if leads else "appends for others no more")
            self.counters.leaderships += leads
            for hook in self._hooks:
                hook(leads)

    # -- proposals on their way -------------------------------------------------------------------

    def _enqueue(self, waiting: Waiting[Any]) -> None:
        kind = codec.kind_of(waiting.proposal)
        if kind is None or (self._reaches_log and not self.incarnation):
            super()._enqueue(waiting)
            return
        number = self._next_number
        self._next_number += 1
        self._unanswered[number] = None
        outgoing = _Outgoing(number, kind, waiting)
        if self._reaches_log and not self._outbox and not self._asking and self.leader() is None:
            self._number_here(outgoing)
        else:
            self._outbox.append(outgoing)
            self._outgoing.set()

    def _withdraw(self, waiting: Waiting[Any]) -> None:
        """What was sent may have come true: it is asked for until something is known of it."""
        numbered = self._here.get(waiting)
        if numbered is not None:
            if self._forget(numbered.waiting):
                self._end_here(waiting)
            return
        for outgoing in self._outbox:
            if outgoing.waiting is waiting:
                self._outbox.remove(outgoing)
                del self._unanswered[outgoing.number]
                return
        super()._withdraw(waiting)

    @property
    def _silent_since(self) -> float | None:
        times = [each for each in (self._asked_at, self._unheard_since) if each is not None]
        return min(times, default=None)

    @property
    def _acknowledged(self) -> int:
        """Return the number up to which nothing will be asked again."""
        return next(iter(self._unanswered), self._next_number) - 1

    def _number_here(self, outgoing: _Outgoing) -> None:
        """Give a proposal to this gateway's own queue."""
        waiting = outgoing.waiting

        def deliver(answer: bytes | NotDecided) -> None:
            self._end_here(waiting)
            if isinstance(answer, NotDecided):
                waiting.fail(ProposalFailed(answer.value))
            else:
                waiting.deliver(codec.decode_answer(outgoing.kind, answer))

        def fail(failure: ProposalFailed) -> None:
            self._end_here(waiting)
            waiting.fail(failure)

        proposal = Numbered(
            self.incarnation,
            outgoing.number,
            self._acknowledged,
            int(self._wall_clock() * 1000),
            int(trio.current_time() * 1000),
            waiting.proposal,
            codec.encode,
            outgoing.was_sent,
        )
        inner = Waiting(proposal, deliver, fail)
        self._here[waiting] = _Outgoing(outgoing.number, outgoing.kind, inner)
        self._decide_here(inner)

    def _end_here(self, waiting: Waiting[Any]) -> None:
        del self._unanswered[self._here.pop(waiting).number]
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
                while self._asking or self._outbox:
                    await self._send_some()

    async def _send_some(self) -> None:
        """Let the outbox's head be decided, by whoever is to do it now."""
        while self._here:  # or what comes behind could overtake it
            await self._none_here.wait()
        if not self._asking:
            self._take()
        found = self.leader()
        if found is not None:
            await self._ask(found)
        elif self._reaches_log:
            asking, self._asking = self._asking, []
            self._unheard_since = None
            for each in asking:
                self._number_here(each)
        else:
            self._unheard_since = self._unheard_since or trio.current_time()
            _log.warning("no gateway is known that reaches the metadata log; trying again")
            await trio.sleep(PAUSE_SECONDS * 10)
            self._look_again()

    def _take(self) -> None:
        size_bytes = 0
        while self._outbox:
            outgoing = self._outbox[0]
            if not outgoing.body:
                outgoing.body = codec.encode_proposal(self._dated(outgoing.waiting.proposal))
            size_bytes += len(outgoing.body) + 100
            if self._asking and size_bytes > MAX_ASK_BYTES:
                return
            self._asking.append(self._outbox.popleft())

    def _dated(self, proposal: Proposal[Any]) -> Proposal[Any]:
        """See Register.before."""
        if not isinstance(proposal, Register):
            return proposal
        return replace(proposal, before=self.state.gateways.next_incarnation)

    async def _ask(self, found: Gateway) -> None:
        self.counters.asked += 1
        self.counters.proposals += len(self._asking)
        self._unheard_since = self._unheard_since or trio.current_time()
        question = Ask(
            VERSION,
            self.state.cluster_id,
            self.incarnation,
            self._acknowledged,
            int(self._wall_clock() * 1000),
            int(trio.current_time() * 1000),
            [Sent(each.number, each.kind, each.body, each.was_sent) for each in self._asking],
        )
        for each in self._asking:
            each.was_sent = True
        try:
            told = await self._peers.ask(found, question, ASK_SECONDS)
        except PeerUnavailable as error:
            self.counters.unanswered += 1
            _log.warning("no answer from the leader", node_id=found.node_id, error=str(error))
            await self._suspect(found)
            return
        if not await self._reach(told.position):
            _log.warning("the log has not what was answered", node_id=found.node_id)
            await self._suspect(found)
            return
        self._unheard_since = None
        await self._settle(found, {each.number: each for each in told.answers})

    async def _suspect(self, found: Gateway) -> None:
        """Ask another one for a while, after a look at who lives.

        The while grows, or of many that are silent the first would be asked again before the last.
        """
        failures = self._failures.get(found.incarnation, 0)
        self._failures[found.incarnation] = failures + 1
        seconds = FIRST_SUSPECT_SECONDS * 2 ** min(failures, MOST_DOUBLINGS)
        self._suspects[found.incarnation] = trio.current_time() + seconds
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
        while self._asking:
            outgoing = self._asking[0]
            answer = answers.get(outgoing.number)
            if answer is None or not self._settle_one(outgoing, answer):
                await self._suspect(found)
                return
            del self._asking[0]
        self._failures.clear()

    def _settle_one(self, outgoing: _Outgoing, answer: Answered) -> bool:
        """Give one answer; False when it is none."""
        outcome = answer.outcome
        if outcome == Outcome.ANSWERED:
            try:
                result = codec.decode_answer(outgoing.kind, answer.body)
            except codec.Unreadable:
                return False
            del self._unanswered[outgoing.number]
            outgoing.waiting.deliver(result)
            return True
        if outcome == Outcome.ENDED:
            self._note_end(outgoing)
            return True
        if outcome not in (Outcome.FAILED, Outcome.ACKNOWLEDGED, Outcome.NEWER):
            return False
        if outcome == Outcome.NEWER and self._reaches_log:
            return False
        del self._unanswered[outgoing.number]
        outgoing.waiting.fail(ProposalFailed(_text(answer)))
        return True

    def _note_end(self, outgoing: _Outgoing) -> None:
        if not self._is_leaving:
            raise GatewayFenced(f"incarnation {self.incarnation} was ended by another gateway")
        del self._unanswered[outgoing.number]
        if isinstance(outgoing.waiting.proposal, Leave):
            outgoing.waiting.deliver(None)  # it had come true before
        else:
            outgoing.waiting.fail(ProposalFailed("this gateway has left and writes no more"))


def _text(answer: Answered) -> str:
    if answer.outcome == Outcome.NEWER:
        return (
            "the gateways that reach the metadata log are of an older release: upgrade them first"
        )
    return answer.body.decode(errors="replace") or "its author had given it up"
