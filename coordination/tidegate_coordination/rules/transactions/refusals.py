"""Why a step of a transaction was refused."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ...events.metadata_versions import TRANSACTIONS
from ..proposal import View

MAX_PARTITIONS: Final = 16_384
"""The most partitions of one transaction: its end is one event, a quarter of an entry at most."""
MAX_GROUPS: Final = 1_000


class TransactionRefusal(Enum):
    """Why a step was refused."""

    NOT_YET = "the cluster's metadata.version is too low for transactions"
    UNKNOWN_ID = "the transactional id is unknown, or has another producer id"
    FENCED = "the transactional id has another producer epoch"
    INVALID_STATE = "the transaction is not in a state that allows it"
    CONCURRENT = "another transaction of the id began meanwhile"
    MIRRORED = "a topic is mirrored from another cluster"
    UNKNOWN_TOPIC = "a topic or partition does not exist (any more)"
    NOT_ADDED = "the transaction does not have the partition or group"
    TOO_LARGE = "the transaction has too many partitions or groups"
    NOT_HOLDER = "another gateway serves the group"
    ILLEGAL_GENERATION = "a later generation of the group has begun"
    NEEDS_PRODUCER_ID = "the epochs of the producer id have run out: ask with another id"


def allows_transactions(view: View) -> bool:
    """Return whether the cluster may have transactions."""
    return view.state.metadata_version >= TRANSACTIONS
