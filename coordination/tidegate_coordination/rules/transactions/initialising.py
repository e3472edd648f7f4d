"""Gives a transactional id its producer id and epoch (InitProducerId), and fences older ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...events import transactions as tev
from ...events.cluster import Event
from ...state.transactions.rows import NO_EPOCH, NO_ID, TransactionalId, TransactionState
from ..proposal import HEADS, STAGED, TOPICS, Decided, View
from ..transaction_overlay import OverlaidId
from .ending import EndAnswer, NextEpoch, bumped, end, refused
from .refusals import TransactionRefusal, allows_transactions

FIRST_EPOCH: Final = 0
"""Of a new id."""
_UNUSED: Final = -1


@dataclass(frozen=True, slots=True)
class InitialiseTransactionalId:
    """Bump the epoch of a transactional id, or make the id.

    If a transaction is open, it is aborted in the same entry, with one bump of the epoch, and the
    client need not ask again.  (Kafka answers CONCURRENT_TRANSACTIONS, and bumps twice.)
    expected_id, expected_epoch: the client's own, or NO_ID and NO_EPOCH (KIP-360).
    spare_id: a reserved producer id, or NO_ID; see NEEDS_PRODUCER_ID.
    """

    transactional_id: str
    timeout_ms: int
    expected_id: int = NO_ID
    expected_epoch: int = NO_EPOCH
    spare_id: int = NO_ID
    reads: frozenset[str] = field(default=frozenset({TOPICS}), init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS, STAGED}), init=False)

    def decide(self, view: View) -> Decided[EndAnswer]:
        """See the class."""
        if not allows_transactions(view):
            return Decided((), refused(TransactionRefusal.NOT_YET))
        if view.state.link_groups.link_of_id(self.transactional_id):
            # This gateway had not read that the id is at the source of a link.
            return Decided((), refused(TransactionRefusal.NOT_HOLDER))
        found = view.transactions.of_name(self.transactional_id)
        if found is None:
            return self._make(view)
        if self.expected_id == NO_ID:
            return self._bump(view, found, NO_EPOCH)
        return self._go_on(view, found)

    def _make(self, view: View) -> Decided[EndAnswer]:
        if self.spare_id == NO_ID:
            return Decided((), refused(TransactionRefusal.NEEDS_PRODUCER_ID))
        following = NextEpoch(FIRST_EPOCH, self.spare_id, FIRST_EPOCH)
        return self._decided(view, [], following, last_epoch=NO_EPOCH, previous_id=NO_ID)

    def _go_on(self, view: View, found: OverlaidId) -> Decided[EndAnswer]:
        """Answer a client that continues with its own id after an error."""
        row = found.row
        is_previous = self.expected_id == row.previous_producer_id
        if self.expected_id != row.producer_id and not is_previous:
            return Decided((), refused(TransactionRefusal.FENCED))
        if not is_previous and row.has_epoch(self.expected_epoch):
            return self._bump(view, found, row.epoch)
        if self.expected_epoch != row.last_epoch:
            return Decided((), refused(TransactionRefusal.FENCED))
        # The request is a repeat, whose first answer had the present epoch.
        if row.is_open:
            return Decided((), EndAnswer(None, row.producer_id, row.epoch))
        following = NextEpoch(row.epoch, row.producer_id, row.epoch)
        return self._decided(
            view, [], following, last_epoch=row.last_epoch, previous_id=row.previous_producer_id
        )

    def _bump(self, view: View, found: OverlaidId, last_epoch: int) -> Decided[EndAnswer]:
        row = found.row
        following = bumped(row, self.spare_id)
        if following is None:
            return Decided((), refused(TransactionRefusal.NEEDS_PRODUCER_ID))
        events: list[Event] = []
        if row.is_open:
            cause = tev.CAUSE_INITIALISED
            events.append(end(view, found, following, committed=False, cause=cause))
        is_rotated = following.producer_id != row.producer_id
        previous_id = row.producer_id if is_rotated else NO_ID
        return self._decided(
            view, events, following, last_epoch=last_epoch, previous_id=previous_id
        )

    def _decided(
        self,
        view: View,
        events: list[Event],
        following: NextEpoch,
        *,
        last_epoch: int,
        previous_id: int,
    ) -> Decided[EndAnswer]:
        producer_id, epoch = following.producer_id, following.epoch
        row = TransactionalId(
            producer_id,
            epoch,
            last_epoch,
            previous_id,
            self.timeout_ms,
            TransactionState.EMPTY,
            _UNUSED,
            view.log_time_ms,
            _UNUSED,
        )
        view.transactions.put(self.transactional_id, row)
        event = tev.TransactionalIdInitialised(
            self.transactional_id, producer_id, epoch, last_epoch, previous_id, self.timeout_ms
        )
        return Decided((*events, event), EndAnswer(None, producer_id, epoch))
