"""The results of steps of a transaction, and the codes that lead to them."""

from __future__ import annotations

from enum import Enum
from typing import Final

from tidegate_protocol.error_codes import ErrorCode

FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
MUST_ABORT: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.MESSAGE_TOO_LARGE,  # a client may lower max.message.bytes
    }
)
GONE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""The errors of a topic that another client deletes."""
NOT_A_MEMBER: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


class Step(Enum):
    """The result of a step of a transaction."""

    DONE = "done"
    MUST_ABORT = "the transaction can only be aborted"
    OVER = "this life of the client is over"
