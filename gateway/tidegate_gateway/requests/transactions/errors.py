"""Kafka's codes for the refusals of transactions.

Older versions of the requests know fewer codes: PRODUCER_FENCED was once INVALID_PRODUCER_EPOCH
(KIP-360), and TRANSACTION_ABORTABLE once INVALID_TXN_STATE (KIP-890).
"""

from __future__ import annotations

from typing import Final

from tidegate_coordination.rules.transactions.refusals import TransactionRefusal
from tidegate_protocol.error_codes import ErrorCode

UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The metadata log is away: the client repeats the request."""

_CODES: Final = {
    None: ErrorCode.NONE,
    TransactionRefusal.NOT_YET: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    TransactionRefusal.UNKNOWN_ID: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    TransactionRefusal.FENCED: ErrorCode.PRODUCER_FENCED,
    TransactionRefusal.INVALID_STATE: ErrorCode.INVALID_TXN_STATE,
    TransactionRefusal.CONCURRENT: ErrorCode.CONCURRENT_TRANSACTIONS,
    TransactionRefusal.MIRRORED: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    TransactionRefusal.UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    TransactionRefusal.NOT_ADDED: ErrorCode.TRANSACTION_ABORTABLE,
    # Kafka has no such limit.  Clients abort the transaction.
    TransactionRefusal.TOO_LARGE: ErrorCode.TRANSACTION_ABORTABLE,
    TransactionRefusal.NOT_HOLDER: ErrorCode.NOT_COORDINATOR,
    TransactionRefusal.ILLEGAL_GENERATION: ErrorCode.ILLEGAL_GENERATION,
}


def refusal_code(
    refusal: TransactionRefusal | None, *, knows_fenced: bool, knows_abortable: bool = True
) -> ErrorCode:
    """Return the code to answer; NONE for no refusal.

    knows_fenced, knows_abortable: whether the request's version has PRODUCER_FENCED, and
    TRANSACTION_ABORTABLE.
    """
    code = _CODES[refusal]
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
