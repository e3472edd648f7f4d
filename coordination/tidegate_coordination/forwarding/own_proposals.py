"""This gateway's own proposals while they are in its own queue instead of its outbox."""

from __future__ import annotations

from typing import Any

import trio

from ..coordinator.decider import Decider
from ..coordinator.waiting import Failure, ProposalFailed, Waiting
from ..rules.numbered import NotDecided, Numbered
from . import codec
from .answers import deliver
from .outbox import UNNUMBERED, Outbox, Outgoing


class OwnProposals:
    """For each caller's proposal: its form in the outbox, and its form in the queue."""

    def __init__(self, decider: Decider, outbox: Outbox) -> None:
        self._decider = decider
        self._queue = decider.queue
        self._outbox = outbox
        self._queued: dict[Waiting[Any], tuple[Outgoing, Waiting[Any]]] = {}
        self._none_left = trio.Event()

    async def wait_until_none(self) -> None:
        """Wait until no proposal is queued: a forwarded proposal could overtake a queued one."""
        while self._queued:
            await self._none_left.wait()

    def take_back(self, outgoing: Outgoing) -> None:
        """Let this gateway decide a numbered proposal instead of sending it."""
        if self._decider.replica.incarnation:
            self._add_numbered(outgoing)
            return
        self._outbox.end(outgoing.number)  # a number needs an incarnation
        self.add_unnumbered(outgoing.waiting, outgoing.kind)

    def add_unnumbered(self, waiting: Waiting[Any], kind: str) -> None:
        """Queue a proposal without a number; no other gateway ever gets it."""

        def answer(result: object) -> None:
            self._end(waiting)
            waiting.deliver(result)

        def fail(failure: Failure) -> None:
            self._end(waiting)
            waiting.fail(failure)

        inner = Waiting(
            waiting.proposal,
            answer,
            fail,
            before_ms=waiting.before_ms,
            rights_as_of=waiting.rights_as_of,
        )
        self._queued[waiting] = (Outgoing(UNNUMBERED, kind, waiting), inner)
        self._queue.add(inner)

    def _add_numbered(self, outgoing: Outgoing) -> None:
        """Queue a proposal under its number."""
        waiting = outgoing.waiting

        def answer(result: bytes | NotDecided) -> None:
            self._end(waiting)
            if isinstance(result, NotDecided):
                waiting.fail(ProposalFailed(result.value))
            else:
                deliver(outgoing, result)

        def fail(failure: Failure) -> None:
            self._end(waiting)
            waiting.fail(failure)

        proposal = Numbered(
            self._decider.replica.incarnation,
            outgoing.number,
            self._outbox.acknowledged,
            self._decider.clock_ms(),
            int(trio.current_time() * 1000),
            waiting.to_decide,
            codec.encode,
            outgoing.asked,
            waiting.before_ms,
        )
        inner = Waiting(proposal, answer, fail)
        self._queued[waiting] = (outgoing, inner)
        self._queue.add(inner)

    def withdraw(self, waiting: Waiting[Any]) -> bool:
        """Withdraw a proposal; return False if it is not among these.

        If it was sent before, another gateway may decide it, so this gateway still has to decide
        it.
        """
        if waiting not in self._queued:
            return False
        outgoing, inner = self._queued[waiting]
        outgoing.asked.is_withdrawn = True
        if not outgoing.was_sent and self._queue.withdraw(inner):
            self._end(waiting)
        return True

    def hand_over(self) -> None:
        """Move the queued proposals to the outbox, before the proposals that wait there.

        A proposal without a number is known to no other gateway, and gets a number now; the others
        keep their numbers.
        """
        own = {inner: outgoing for outgoing, inner in self._queued.values()}
        handed = [own[each] for each in self._queue.take_out(own)]
        for outgoing in handed:
            del self._queued[outgoing.waiting]
            if outgoing.number == UNNUMBERED:
                outgoing.number = self._outbox.take_number()
        self._outbox.add_first(handed)
        self._note_end()

    def _end(self, waiting: Waiting[Any]) -> None:
        outgoing, _ = self._queued.pop(waiting)
        self._outbox.end(outgoing.number)
        self._note_end()

    def _note_end(self) -> None:
        if not self._queued:
            self._none_left.set()
            self._none_left = trio.Event()
