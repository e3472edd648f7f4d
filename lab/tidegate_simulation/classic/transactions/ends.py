"""EndTxn, and the ends that no client asked for, by the rules of Kafka's coordinator.  Pure.

EndTxn v5 (transaction.version 2) bumps the epoch with each end.  So a repeat names the epoch before
the present one, or the previous producer id and its last epoch.  Before v5 a repeat names the
present epoch, and so does a late request for an earlier transaction.

With transaction.version 2, if the coordinator itself aborts in the last epoch, it replaces the
producer id, as in the newest Kafka (KAFKA-20090).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tidegate_protocol.error_codes import ErrorCode

from ..model_transaction import LAST_EPOCH, NOTHING, ModelTransaction, TransactionState, refused

_IS_COMMIT: Final = {
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.COMPLETE_ABORT: False,
}


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch, as a client names them."""

    producer_id: int
    epoch: int


class Circumstances(NamedTuple):
    """The broker's part in a step.

    now_ms: the wall clock.  new_id: gives a producer id.
    bumps: the finalized transaction.version is 2, so that the coordinator's own ends are as of v5.
    """

    now_ms: int
    new_id: Callable[[], int]
    bumps: bool


def end(transaction: ModelTransaction, producer: ProducerIdentity, *, commits: bool) -> bool:
    """End a transaction as EndTxn v0-4 does; return False for a repeat.

    Raises:
      Refused: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or
        INVALID_TXN_STATE.
    """
    transaction.check_producer(*producer)
    transaction.check_settled()
    if transaction.state is TransactionState.ONGOING:
        transaction.prepare(commits=commits)
        return True
    _check_same_end(transaction, commits=commits)
    return False


def end_and_bump(
    transaction: ModelTransaction,
    producer: ProducerIdentity,
    circumstances: Circumstances,
    *,
    commits: bool,
) -> bool:
    """End a transaction as EndTxn v5 does; return False for a repeat.

    An abort without a transaction bumps the epoch, too.

    Raises:
      Refused: as end().
    """
    is_repeat = _check_sender(transaction, producer)
    transaction.check_settled()
    if is_repeat:
        _check_same_end(transaction, commits=commits)
        return False
    if transaction.state is not TransactionState.ONGOING:
        if commits:
            raise refused(ErrorCode.INVALID_TXN_STATE)
        transaction.started_ms = circumstances.now_ms
    _bump(transaction, circumstances)
    transaction.prepare(commits=commits)
    return True


def abort_and_fence(transaction: ModelTransaction, circumstances: Circumstances) -> None:
    """Abort an open transaction, with an epoch that fences its producer.

    In transaction.version 2 an EndTxn with the former epoch counts as a repeat of this abort.  In
    earlier versions no request counts as a repeat.
    """
    if circumstances.bumps:
        _bump(transaction, circumstances)
    else:
        transaction.epoch += 1
        transaction.last_epoch = NOTHING
    transaction.prepare(commits=False)


def _bump(transaction: ModelTransaction, circumstances: Circumstances) -> None:
    if transaction.is_exhausted:
        transaction.next_producer_id = circumstances.new_id()
    transaction.last_epoch = transaction.epoch
    transaction.epoch += 1


def _check_sender(transaction: ModelTransaction, producer: ProducerIdentity) -> bool:
    """Check the sender of an EndTxn v5; return whether the request is a repeat."""
    follows_change = (
        producer == (transaction.previous_producer_id, LAST_EPOCH) and transaction.epoch == 0
    )
    if producer.producer_id != transaction.producer_id and not follows_change:
        raise refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    follows_bump = transaction.epoch == producer.epoch + 1
    is_repeat = _may_repeat(transaction) and (follows_bump or follows_change)
    is_current = producer.epoch == transaction.epoch and not transaction.is_prepared
    if not (is_repeat or is_current):
        raise refused(ErrorCode.PRODUCER_FENCED)
    return is_repeat


def _may_repeat(transaction: ModelTransaction) -> bool:
    return transaction.is_prepared or transaction.state in _IS_COMMIT


def _check_same_end(transaction: ModelTransaction, *, commits: bool) -> None:
    """Check that the last end was a commit, or an abort, as in the repeated request."""
    if _IS_COMMIT.get(transaction.state) is not commits:
        raise refused(ErrorCode.INVALID_TXN_STATE)
