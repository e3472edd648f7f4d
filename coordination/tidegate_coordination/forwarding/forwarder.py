"""The route of a gateway that has a leader decide its proposals and append for many gateways.

    proposals --number--> outbox --POST--> leader: decide, append --> answers
                             |                                           |
                             +-- this gateway leads: decide and append   read the log up to there,
                                 here, without a question                then answer

It is for logs that support few writers (docs/architecture.md, "Forwarding").  With other logs, a
gateway forwards only for a while after too many lost appends (contention.py).  Otherwise it decides
and appends by itself, without numbers.

A proposal has a number, and is sent under it again until its outcome is known: to the next gateway
by rendezvous if the first does not answer (asking.py), or through this gateway's own queue to the
log (own_proposals.py).  By its number it is committed once (state/writers/proposals.py).  Answers
are given in the order of submits.

A gateway that does not reach the log (`forward:`) never decides by itself.  Until it is registered
its proposals have no number, for a number needs an incarnation; see rules/gateways.Register.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from ..coordinator.decider import Decider
from ..coordinator.waiting import Waiting
from ..state.changes import EVERY_ENTRY
from ..state.writers.gateways import Gateway
from . import codec
from .asking import Asker, ForwardingCounters
from .contention import Contention
from .leadership import Leadership
from .outbox import Outbox, Outgoing
from .own_proposals import OwnProposals
from .peers import Peers

SERVING_SECONDS: Final = 1.0


class Forwarder:
    """See the module's head, and coordinator/route.py.

    peers: how other gateways are asked.  contention: when to ask them; None for always.
    """

    def __init__(
        self, decider: Decider, peers: Peers, *, contention: Contention | None = None
    ) -> None:
        self._reaches_log = decider.log.capabilities.can_append
        self.leadership = Leadership(decider.replica.state, reaches_log=self._reaches_log)
        self.contention = contention
        self._replica = decider.replica
        self._queue = decider.queue
        self._outbox = Outbox()
        self._outgoing = trio.Event()
        self._own = OwnProposals(decider, self._outbox)
        self._asker = Asker(decider, self._outbox, peers, self.leadership)
        self._serves_until = float("-inf")
        # Another gateway may lead as time passes, and once this gateway knows its own incarnation.
        decider.replica.listen(self._on_change, EVERY_ENTRY)
        if contention is not None:
            decider.committer.watch_races(self._on_race)

    @property
    def counters(self) -> ForwardingCounters:
        """Questions and proposals that were forwarded, for metrics."""
        return self._asker.counters

    @property
    def unheard_since(self) -> float | None:
        """See Route."""
        return self._asker.unheard_since

    def _on_change(self, _touched: set[int]) -> None:
        if self._replica.incarnation:
            self.leadership.other(self._replica.incarnation)

    def _leader(self) -> Gateway | None:
        """Return the gateway to ask now; None if there is none, or this gateway decides itself."""
        found = self.leadership.other(self._replica.incarnation)
        if self._decides_alone:
            return None
        if self.contention is None:
            return found
        # A gateway that handed over must not choose itself as leader.
        return self.leadership.another(self._replica.incarnation)

    @property
    def _decides_alone(self) -> bool:
        return self._reaches_log and self.contention is not None and not self.contention.holds

    def take(self, waiting: Waiting[Any]) -> None:
        """See Route."""
        kind = codec.kind_of(waiting.proposal)
        if kind is None:
            self._queue.add(waiting)
            return
        is_free = self._reaches_log and self._outbox.is_empty
        if is_free and self._needs_no_number:
            self._own.add_unnumbered(waiting, kind)
            return
        outgoing = Outgoing(self._outbox.take_number(), kind, waiting)
        if is_free and self._leader() is None:
            self._own.take_back(outgoing)
        else:
            self._outbox.add(outgoing)
            self._outgoing.set()

    @property
    def _needs_no_number(self) -> bool:
        if not self._replica.incarnation:
            return self.contention is None or not self.contention.holds
        return self._decides_alone and trio.current_time() >= self._serves_until

    def take_here(self, waiting: Waiting[Any]) -> None:
        """See Route; for a while this gateway numbers its own proposals, too.

        An entry can then hold this gateway's proposals after the proposals of others.
        """
        self._serves_until = trio.current_time() + SERVING_SECONDS
        self._queue.add(waiting)

    def withdraw(self, waiting: Waiting[Any]) -> None:
        """See Route; a proposal that was sent is asked for until its outcome is known."""
        if self._own.withdraw(waiting):
            return
        self._outbox.withdraw(waiting)
        self._queue.withdraw(waiting)

    def _on_race(self, is_won: bool) -> None:
        """Count a race for the log's next position; hand over after too many lost races."""
        contention = self.contention
        if contention is None:
            return
        if is_won:
            contention.won()
        elif contention.lost() and self.leadership.another(self._replica.incarnation) is not None:
            contention.leave_it()
            self._hand_over()

    def _hand_over(self) -> None:
        self._own.hand_over()
        self._outgoing.set()

    async def run(self, decide: Callable[[], Awaitable[None]]) -> None:
        """See Route."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(decide)
            while True:
                await self._outgoing.wait()
                self._outgoing = trio.Event()
                while not self._outbox.is_empty:
                    await self._send_some()

    async def _send_some(self) -> None:
        """Have the outbox's head decided, by the leader or by this gateway."""
        await self._own.wait_until_none()
        if not self._outbox.asking:
            self._asker.fill_question()
        if not self._outbox.asking:
            return
        found = self._leader()
        if found is not None:
            await self._asker.ask(found)
        elif self._reaches_log:
            self._asker.unheard_since = None
            for each in self._outbox.hand_back():
                self._own.take_back(each)
        else:
            await self._asker.wait_for_leader()
