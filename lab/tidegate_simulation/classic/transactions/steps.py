"""InitProducerId, and steps that add partitions, by the rules of Kafka's coordinator.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate_protocol.error_codes import ErrorCode

from ..model_topics import PartitionKey
from ..model_transaction import LAST_EPOCH, NOTHING, ModelTransaction, TransactionState, refused
from .ends import Circumstances, ProducerIdentity, abort_and_fence


def initialise(
    transaction: ModelTransaction,
    expected: ProducerIdentity | None,
    timeout_ms: int,
    circumstances: Circumstances,
) -> bool:
    """Give a producer its id and epoch; return False if an open transaction must end first.

    expected: the id and epoch that the producer had so far (KIP-360); a repeated request gets the
    answer of the first one.

    Raises:
      Refused: PRODUCER_FENCED or CONCURRENT_TRANSACTIONS; UNKNOWN_SERVER_ERROR if no epoch is left
        and the expected epoch is another one, at which Kafka fails.
    """
    transaction.check_settled()
    if expected is not None and not _is_own(transaction, expected):
        raise refused(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        abort_and_fence(transaction, circumstances)
        return False
    _continue(transaction, expected, circumstances)
    transaction.become_empty(timeout_ms)
    return True


def _is_own(transaction: ModelTransaction, expected: ProducerIdentity) -> bool:
    is_repeat = expected.producer_id == transaction.previous_producer_id and (
        expected.epoch >= LAST_EPOCH
    )
    is_present = expected.producer_id == transaction.producer_id
    return transaction.epoch == NOTHING or is_present or is_repeat


def _continue(
    transaction: ModelTransaction, expected: ProducerIdentity | None, circumstances: Circumstances
) -> None:
    epoch, producer_id = transaction.epoch, transaction.producer_id
    is_current = expected is None or expected.epoch == epoch
    if transaction.is_exhausted:
        if not is_current:
            raise refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        last_epoch = NOTHING if expected is None else epoch
        transaction.take_identity(circumstances.new_id(), 0, last_epoch)
    elif expected is None:
        transaction.take_identity(producer_id, epoch + 1, NOTHING)
    elif is_current or epoch == NOTHING:
        transaction.take_identity(producer_id, epoch + 1, epoch)
    elif expected.epoch == transaction.last_epoch:
        transaction.take_identity(producer_id, epoch, transaction.last_epoch)
    else:
        raise refused(ErrorCode.PRODUCER_FENCED)


def add(
    transaction: ModelTransaction,
    producer: ProducerIdentity,
    keys: Iterable[PartitionKey],
    now_ms: int,
) -> None:
    """Add partitions to the transaction.

    An end under way is checked before the producer id, because it may lead to this producer id.

    Raises:
      Refused: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
    """
    wanted = set(keys)
    transaction.check_settled()
    transaction.check_producer(*producer)
    is_open = transaction.state is TransactionState.ONGOING
    if not (is_open and wanted <= transaction.partitions.keys()):
        transaction.grow(sorted(wanted), now_ms)


def verify(transaction: ModelTransaction, producer: ProducerIdentity, key: PartitionKey) -> None:
    """Check that a partition takes part (KIP-890).

    Raises:
      Refused: as add(), or TRANSACTION_ABORTABLE: it does not.
    """
    transaction.check_producer(*producer)
    transaction.check_settled()
    if key not in transaction.partitions:
        raise refused(ErrorCode.TRANSACTION_ABORTABLE)
