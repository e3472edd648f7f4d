"""Producers: their ids, epochs and transactions, and the upkeep of those."""

from __future__ import annotations

from typing import Any, Final

from tidegate_coordination.rules.records.producer_ids import ExpireProducers, ReserveProducerIds
from tidegate_coordination.rules.transactions.ending import (
    AbortTimedOut,
    AbortTransaction,
    EndAnswer,
    EndTransaction,
)
from tidegate_coordination.rules.transactions.expiring import ExpireTransactionalIds
from tidegate_coordination.rules.transactions.growing import GrowTransaction
from tidegate_coordination.rules.transactions.initialising import InitialiseTransactionalId

from ..decider import Decider
from .known import TRANSACTIONAL_IDS, Caller, Known
from .writer import Writer

_BLOCK: Final = 20
_OWN_EPOCH_SHARE: Final = 0.4
_EXPIRATION_MS: Final = 60_000
_TIMEOUT_MS: Final = 60_000


class ProducerCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.reserve_ids, 4),
            (self.begin_id, 6),
            (self.grow, 5),
            (self.end, 10),
            (self.abort, 1),
            (self.abort_timed_out, 2),
            (self.expire_producers, 1),
            (self.expire_ids, 1),
        )

    def reserve_ids(self, decider: Decider) -> None:
        """Get a block of producer ids."""

        def judged(first: int, is_told: bool) -> None:
            self._world.records.reserved(first + _BLOCK)
            if is_told:
                self._known.spare.extend(range(first, first + _BLOCK))

        self._world.ask(decider, ReserveProducerIds(_BLOCK), judged)

    def begin_id(self, decider: Decider) -> None:
        """Give a producer an id, or its next epoch."""
        writer = self._rng.choice(self._known.writers)
        spare = self._known.spare_id()
        if spare is None:
            return
        if not writer.name:
            self._begin_idempotent(writer, spare)
            return
        proposal = InitialiseTransactionalId(writer.name, _TIMEOUT_MS, spare_id=spare)

        def judged(answer: EndAnswer, is_told: bool) -> None:
            if answer.refusal is not None:
                self._world.complain_at_newest(f"{writer.name} gets no epoch: {answer.refusal}")
                return
            self._world.transactions.initialised(writer.name, answer.producer_id, answer.epoch)
            if is_told:
                writer.begin(answer.producer_id, answer.epoch)

        self._world.ask(decider, proposal, judged)

    def _begin_idempotent(self, writer: Writer, spare: int) -> None:
        """Give an idempotent producer an id; at times it raises its epoch by itself (KIP-360)."""
        if writer.producer_id >= 0 and self._rng.random() < _OWN_EPOCH_SHARE:
            writer.begin(writer.producer_id, writer.epoch + 1)
        else:
            writer.begin(spare, 0)

    def grow(self, decider: Decider) -> None:
        """Add partitions to a transaction."""
        writer = self._rng.choice(self._known.writers)
        if not writer.name or writer.producer_id < 0 or not self._known.topics:
            return
        places = tuple(dict.fromkeys((self._known.place(), self._known.place())))
        ids = writer.producer_id, writer.epoch
        proposal = GrowTransaction(writer.name, *ids, places)

        def judged(refusal: Any, is_told: bool) -> None:
            if refusal is not None:
                return
            self._world.transactions.grown(writer.name, *ids, places)
            if is_told and ids == (writer.producer_id, writer.epoch):
                writer.is_open = True

        self._world.ask(decider, proposal, judged)

    def end(self, decider: Decider) -> None:
        """Commit or abort; the client takes the next epoch from the answer."""
        writer = self._rng.choice(self._known.writers)
        if not writer.name or not writer.is_open:
            return
        spare = self._known.spare_id()
        if spare is None:
            return
        ids = writer.producer_id, writer.epoch
        is_commit = self._rng.random() < 0.7
        proposal = EndTransaction(writer.name, *ids, is_commit, bumps=True, spare_id=spare)

        def judged(answer: EndAnswer, is_told: bool) -> None:
            if answer.refusal is not None:
                return
            after = answer.producer_id, answer.epoch
            self._world.transactions.ended(writer.name, ids, after, committed=is_commit)
            if is_told and ids == (writer.producer_id, writer.epoch):
                writer.begin(*after)

        self._world.ask(decider, proposal, judged)

    def abort(self, decider: Decider) -> None:
        """Abort the transaction of a producer for an operator."""
        name = self._rng.choice(TRANSACTIONAL_IDS)
        found = decider.state.transactions.get(name)
        if found is None:
            return
        proposal = AbortTransaction(
            found.producer_id, found.epoch, self._known.spare_id() or -1, found.began
        )
        self._world.ask(decider, proposal, lambda answer, _: self._aborted(name, answer))

    def abort_timed_out(self, decider: Decider) -> None:
        """Abort a transaction that may be overdue."""
        name = self._rng.choice(TRANSACTIONAL_IDS)
        proposal = AbortTimedOut(name, self._known.spare_id() or -1)

        def judged(answer: EndAnswer, is_told: bool) -> None:
            self._aborted(name, answer)

        self._world.ask(decider, proposal, judged)

    def _aborted(self, name: str, answer: EndAnswer) -> None:
        if answer.refusal is None:
            self._world.transactions.aborted(name, (answer.producer_id, answer.epoch))

    def expire_producers(self, decider: Decider) -> None:
        """Forget idle producers."""

        def judged(answer: None, is_told: bool) -> None:
            self._world.records.expired(self._world.truth.log_time_ms - _EXPIRATION_MS)

        self._world.ask(decider, ExpireProducers(_EXPIRATION_MS), judged)

    def expire_ids(self, decider: Decider) -> None:
        """Forget idle transactional ids."""
        self._world.ask(decider, ExpireTransactionalIds(_EXPIRATION_MS))
