"""Ends transactions: one event, with a marker for each partition.

EndTxn of transaction.version 2 (v5) bumps the epoch with every end, so a repeated request is
recognised by its epoch, and a late batch is fenced (KIP-890).  Before version 2 nothing
distinguishes a request from one of the next transaction: see EndTransaction.began.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...events import transactions as tev
from ...events.fields import LAST_EPOCH
from ...state.records.producers import with_marker
from ...state.transactions.rows import NO_ID, TransactionalId, TransactionState
from ..proposal import HEADS, STAGED, TOPICS, Decided, View
from ..transaction_overlay import OverlaidId
from .refusals import TransactionRefusal, allows_transactions

NOT_OPEN: Final = -1
"""A value of EndTransaction.began: the gateway found no open transaction."""
WHICHEVER: Final = -1
"""A value of AbortTransaction.began: abort whichever transaction is open."""
_COMPLETE: Final = {
    True: TransactionState.COMPLETE_COMMIT,
    False: TransactionState.COMPLETE_ABORT,
}
_SCOPES: Final = frozenset({HEADS, STAGED})


class EndAnswer(NamedTuple):
    """producer_id, epoch: what the transactional id has from now on; -1 if refused."""

    refusal: TransactionRefusal | None
    producer_id: int
    epoch: int


def refused(reason: TransactionRefusal) -> EndAnswer:
    """Return the answer of a refusal."""
    return EndAnswer(reason, -1, -1)


class NextEpoch(NamedTuple):
    """marker_epoch: the markers' epoch.

    The other fields are the transactional id's from then on.
    """

    marker_epoch: int
    producer_id: int
    epoch: int


def bumped(row: TransactionalId, spare_id: int) -> NextEpoch | None:
    """Return the next epoch; None if it needs a spare producer id and there is none."""
    if not row.has_no_epoch_left:
        return NextEpoch(row.epoch + 1, row.producer_id, row.epoch + 1)
    return NextEpoch(row.epoch + 1, spare_id, 0) if spare_id != NO_ID else None


def kept(row: TransactionalId) -> NextEpoch:
    """Return the present epoch for the markers and for the id afterwards."""
    return NextEpoch(row.epoch, row.producer_id, row.epoch)


def end(
    view: View, ending: OverlaidId, following: NextEpoch, *, committed: bool, cause: int
) -> tev.TransactionEnded:
    """Return the event, and leave its changes in the overlay."""
    row = ending.row
    event = tev.TransactionEnded(
        row.producer_id,
        committed,
        following.marker_epoch,
        following.producer_id,
        following.epoch,
        tuple(_mark(view, number, row, following.marker_epoch) for number in ending.partitions),
        view.log_time_ms,  # a marker has no object, so it ages from its own time
        cause,
    )
    is_bumped = (following.producer_id, following.epoch) != (row.producer_id, row.epoch)
    is_rotated = following.producer_id != row.producer_id
    after = row._replace(
        producer_id=following.producer_id,
        epoch=following.epoch,
        last_epoch=row.epoch if is_bumped else row.last_epoch,
        previous_producer_id=row.producer_id if is_rotated else NO_ID,
        state=_COMPLETE[committed],
        started_ms=row.started_ms if row.is_open else view.log_time_ms,
        updated_ms=view.log_time_ms,
    )
    view.transactions.put(ending.name, after)
    return event


def _mark(view: View, number: int, row: TransactionalId, epoch: int) -> tuple[int, int]:
    partition = view.state.partitions[number]
    offset = view.next_offsets.get(number, partition.next_offset)
    view.next_offsets[number] = offset + 1
    key = (number, row.producer_id)
    known = view.producers.get(key) or partition.producers.get(row.producer_id)
    view.producers[key] = with_marker(known, epoch, view.log_time_ms)
    return number, offset


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort the transaction of a client.

    bumps: whether the client takes a new epoch from the answer (EndTxn v5).  began: without bumps,
    the position at which the transaction began that was open when the request arrived.  A request
    that waited must not end the next transaction.
    spare_id: a reserved producer id, or NO_ID; see NEEDS_PRODUCER_ID.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    committed: bool
    bumps: bool
    began: int = NOT_OPEN
    spare_id: int = NO_ID
    reads: frozenset[str] = field(default=frozenset({TOPICS}), init=False)
    writes: frozenset[str] = field(default=_SCOPES, init=False)

    def decide(self, view: View) -> Decided[EndAnswer]:
        """See the class."""
        if not allows_transactions(view):
            return Decided((), refused(TransactionRefusal.NOT_YET))
        found = view.transactions.of_name(self.transactional_id)
        if found is None:
            return Decided((), refused(TransactionRefusal.UNKNOWN_ID))
        return self._bump(view, found) if self.bumps else self._keep(view, found)

    def _bump(self, view: View, found: OverlaidId) -> Decided[EndAnswer]:
        row = found.row
        is_rotated = row.epoch == 0 and self.epoch == LAST_EPOCH
        is_rotated = is_rotated and self.producer_id == row.previous_producer_id != NO_ID
        if self.producer_id != row.producer_id and not is_rotated:
            return Decided((), refused(TransactionRefusal.UNKNOWN_ID))
        # An end before version 2 does not bump the epoch. After such an end, the epoch below is
        # that of a zombie.
        is_repeated = is_rotated or self.epoch == row.last_epoch == row.epoch - 1
        if not row.has_epoch(self.epoch) and not is_repeated:
            return Decided((), refused(TransactionRefusal.FENCED))
        if is_repeated:
            return Decided((), self._answer_repeated(row))
        if not row.is_open and self.committed:
            return Decided((), refused(TransactionRefusal.INVALID_STATE))
        following = bumped(row, self.spare_id)
        if following is None:
            return Decided((), refused(TransactionRefusal.NEEDS_PRODUCER_ID))
        return self._end(view, found, following)

    def _answer_repeated(self, row: TransactionalId) -> EndAnswer:
        """Answer a request with the last epoch: it repeats the last EndTxn, or a zombie sent it."""
        if row.state in (TransactionState.EMPTY, TransactionState.ONGOING):
            return refused(TransactionRefusal.FENCED)
        if row.state is not _COMPLETE[self.committed]:
            return refused(TransactionRefusal.INVALID_STATE)
        return EndAnswer(None, row.producer_id, row.epoch)

    def _keep(self, view: View, found: OverlaidId) -> Decided[EndAnswer]:
        row = found.row
        if self.producer_id != row.producer_id:
            return Decided((), refused(TransactionRefusal.UNKNOWN_ID))
        if not row.has_epoch(self.epoch):
            return Decided((), refused(TransactionRefusal.FENCED))
        if row.is_open and row.began != self.began:
            return Decided((), refused(TransactionRefusal.CONCURRENT))
        if row.is_open:
            return self._end(view, found, kept(row))
        if row.state is not _COMPLETE[self.committed]:
            return Decided((), refused(TransactionRefusal.INVALID_STATE))
        return Decided((), EndAnswer(None, row.producer_id, row.epoch))

    def _end(self, view: View, found: OverlaidId, following: NextEpoch) -> Decided[EndAnswer]:
        event = end(view, found, following, committed=self.committed, cause=tev.CAUSE_CLIENT)
        return Decided((event,), EndAnswer(None, following.producer_id, following.epoch))


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """Abort a transaction that is open for longer than its time-out, and fence its producer.

    Answer: whether it was aborted; NEEDS_PRODUCER_ID asks for a spare id.
    """

    transactional_id: str
    spare_id: int = NO_ID
    reads: frozenset[str] = field(default=frozenset({TOPICS}), init=False)
    writes: frozenset[str] = field(default=_SCOPES, init=False)

    def decide(self, view: View) -> Decided[EndAnswer]:
        """See the class."""
        found = view.transactions.of_name(self.transactional_id)
        if found is None or not is_overdue(found.row, view.log_time_ms):
            return Decided((), refused(TransactionRefusal.INVALID_STATE))
        return abort_fenced(view, found, self.spare_id, tev.CAUSE_TIME_OUT)


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """Abort the open transaction of a producer for an operator, and fence it.

    epoch: the producer's, or that of a marker, which may be later; an earlier one is refused.
    began: the position at which the transaction began that the operator saw.  The producer's next
    transaction stays open, even if it has the same epoch.
    Answer: see EndAnswer.
    """

    producer_id: int
    epoch: int
    spare_id: int = NO_ID
    began: int = WHICHEVER
    reads: frozenset[str] = field(default=frozenset({TOPICS}), init=False)
    writes: frozenset[str] = field(default=_SCOPES, init=False)

    def decide(self, view: View) -> Decided[EndAnswer]:
        """See the class."""
        found = view.transactions.of_producer(self.producer_id)
        if found is None:
            return Decided((), refused(TransactionRefusal.UNKNOWN_ID))
        if self.epoch < found.row.epoch:
            return Decided((), refused(TransactionRefusal.FENCED))
        if not found.row.is_open:
            return Decided((), refused(TransactionRefusal.INVALID_STATE))
        if self.began not in (WHICHEVER, found.row.began):
            return Decided((), refused(TransactionRefusal.CONCURRENT))
        return abort_fenced(view, found, self.spare_id, tev.CAUSE_OPERATOR)


def is_overdue(row: TransactionalId, log_time_ms: int) -> bool:
    """Return whether a transaction is open for longer than its time-out."""
    return row.is_open and log_time_ms > row.started_ms + row.timeout_ms


def abort_fenced(view: View, found: OverlaidId, spare_id: int, cause: int) -> Decided[EndAnswer]:
    """Abort an open transaction with a bumped epoch, which fences its producer."""
    following = bumped(found.row, spare_id)
    if following is None:
        return Decided((), refused(TransactionRefusal.NEEDS_PRODUCER_ID))
    event = end(view, found, following, committed=False, cause=cause)
    return Decided((event,), EndAnswer(None, following.producer_id, following.epoch))
