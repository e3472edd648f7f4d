"""Asks a leader to decide the proposals of the outbox, and settles its answers.

One question is under way at a time.  If no answer comes in time, the next question holds half as
many proposals, so that a slow link can carry it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
import trio

from ..coordinator.decider import Decider
from ..coordinator.waiting import ProposalFailed
from ..log.access import GatewayFenced
from ..rules.gateways import Leave, Register
from ..rules.proposal import Proposal
from ..state.changes import EVERY_ENTRY
from ..state.writers.gateways import Gateway
from . import codec
from .answers import deliver, failure_of
from .leadership import Leadership
from .messages import VERSION, Answered, Ask, Outcome, Sent
from .outbox import Outbox, Outgoing
from .peers import Peers, PeerUnavailable

ASK_SECONDS: Final = 2.0
REACH_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.1

_log = structlog.get_logger("tidegate.forwarding")


@dataclass(slots=True)
class ForwardingCounters:
    """Questions and proposals that were forwarded, for metrics."""

    asked: int = 0
    proposals: int = 0
    unanswered: int = 0


class Asker:
    """See the module's head.

    unheard_since: since when no gateway has answered, on Trio's clock; None if nothing is asked.
    """

    def __init__(
        self, decider: Decider, outbox: Outbox, peers: Peers, leadership: Leadership
    ) -> None:
        self.counters = ForwardingCounters()
        self.unheard_since: float | None = None
        self._decider = decider
        self._replica = decider.replica
        self._outbox = outbox
        self._peers = peers
        self._leadership = leadership
        self._reaches_log = decider.log.capabilities.can_append
        self._folded = trio.Event()

    def _on_change(self, _touched: set[int]) -> None:
        folded, self._folded = self._folded, trio.Event()
        folded.set()

    def fill_question(self) -> None:
        """Take proposals into the next question; those too large for any question fail."""
        for each in self._outbox.take(lambda it: codec.encode_proposal(self._dated(it))):
            text = f"a proposal of {len(each.body)} bytes is too large for other gateways"
            each.waiting.fail(ProposalFailed(text))

    def _dated(self, proposal: Proposal[Any]) -> Proposal[Any]:
        """See Register.before."""
        if not isinstance(proposal, Register):
            return proposal
        return replace(proposal, before=self._replica.state.gateways.next_incarnation)

    async def wait_for_leader(self) -> None:
        """Wait a moment for a gateway to appear that can be asked."""
        self.unheard_since = self.unheard_since or trio.current_time()
        _log.warning("no known gateway reaches the metadata log; trying again")
        await trio.sleep(PAUSE_SECONDS * 10)
        self._decider.work.look_again()

    async def ask(self, leader: Gateway) -> None:
        """Ask a gateway for what the outbox asks, and settle what it answers.

        Raises:
          GatewayFenced: another gateway ended this incarnation.
        """
        asking = self._outbox.asking
        self.counters.asked += 1
        self.counters.proposals += len(asking)
        self.unheard_since = self.unheard_since or trio.current_time()
        question = self._question(asking)
        for each in asking:
            each.asked.again = True
        try:
            told = await self._peers.ask(leader, question, ASK_SECONDS)
        except PeerUnavailable as error:
            self.counters.unanswered += 1
            _log.warning("no answer from the leader", node_id=leader.node_id, error=str(error))
            self._outbox.ask_for_less()
            await self._suspect(leader)
            return
        self.unheard_since = None
        if not await self._reach(told.position):
            _log.warning("the log lacks what the leader answered for", node_id=leader.node_id)
            await self._suspect(leader)
            return
        await self._settle(leader, {each.number: each for each in told.answers})

    def _question(self, asking: list[Outgoing]) -> Ask:
        return Ask(
            VERSION,
            self._replica.state.cluster_id,
            self._replica.incarnation,
            self._outbox.acknowledged,
            self._decider.clock_ms(),
            int(trio.current_time() * 1000),
            [_sent(each) for each in asking],
        )

    async def _suspect(self, leader: Gateway) -> None:
        """Ask other gateways for a while; read the log first, to see which gateways live."""
        self._leadership.suspects.suspect(leader.incarnation)
        if self._reaches_log:
            self.unheard_since = None  # this gateway can decide by itself
        self._decider.work.look_again()
        await trio.sleep(PAUSE_SECONDS)

    async def _reach(self, position: int) -> bool:
        """Wait until the replica has reached a position; False after REACH_SECONDS."""
        until = trio.current_time() + REACH_SECONDS
        with self._replica.listening(self._on_change, EVERY_ENTRY):
            while self._replica.state.position < position and trio.current_time() < until:
                folded = self._folded
                self._decider.work.look_again()
                with trio.move_on_after(PAUSE_SECONDS):
                    await folded.wait()
        return self._replica.state.position >= position

    async def _settle(self, leader: Gateway, answers: dict[int, Answered]) -> None:
        """Settle in order; from the first unknown outcome on, the proposals are asked for again."""
        asking = self._outbox.asking
        while asking:
            outgoing = asking[0]
            answer = answers.get(outgoing.number)
            if answer is None or not self._settle_one(outgoing, answer):
                await self._suspect(leader)
                return
            del asking[0]
        self._leadership.suspects.trust(leader.incarnation)

    def _settle_one(self, outgoing: Outgoing, answer: Answered) -> bool:
        """Settle one proposal; False if the answer leaves its outcome unknown."""
        outcome = answer.outcome
        if outcome == Outcome.ANSWERED:
            self._outbox.end(outgoing.number)
            deliver(outgoing, answer.body)
            return True
        if outcome == Outcome.ENDED:
            self._settle_after_end(outgoing)
            return True
        if outcome not in (Outcome.FAILED, Outcome.ACKNOWLEDGED, Outcome.NEWER):
            return False
        if outcome == Outcome.NEWER and self._reaches_log:
            return False
        self._outbox.end(outgoing.number)
        outgoing.waiting.fail(failure_of(answer))
        return True

    def _settle_after_end(self, outgoing: Outgoing) -> None:
        if not self._replica.is_leaving:
            incarnation = self._replica.incarnation
            raise GatewayFenced(f"incarnation {incarnation} was ended by another gateway")
        self._outbox.end(outgoing.number)
        if isinstance(outgoing.waiting.proposal, Leave):
            outgoing.waiting.deliver(None)  # an earlier copy of it was committed
        else:
            outgoing.waiting.fail(ProposalFailed("this gateway has left and writes no more"))


def _sent(each: Outgoing) -> Sent:
    asked, waiting = each.asked, each.waiting
    return Sent(
        each.number,
        each.kind,
        each.body,
        asked.again,
        asked.is_withdrawn,
        waiting.before_ms,
        waiting.rights_as_of,
    )
