"""Events of transactions (tags 50 to 55).  tenant: see cluster.py.

A transaction has no prepared state: TransactionEnded is its whole end, and data, offsets and
markers become visible with that one entry.  TransactionGrew, TransactionWritten and OffsetsStaged
begin a transaction if the producer has none.
"""

from __future__ import annotations

from typing import Final

from .cluster import Event
from .groups import CommittedOffset


class TransactionalIdInitialised(Event, frozen=True, tag=50):
    """A transactional id has this producer id and epoch from now on; older ones are fenced.

    last_epoch: that a repeated request may still name (KIP-360); -1: none.
    previous_producer_id: of the id, if its epochs ran out; -1: none.  state: see TransactionState;
    that of an id which moved here from the source of a link.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    last_epoch: int
    previous_producer_id: int
    timeout_ms: int
    tenant: int = 0
    state: int = 0


class TransactionGrew(Event, frozen=True, tag=51):
    """Partitions, by number, and groups were added before anything is written to them.

    Clients of transaction.version 0 and 1 do so (AddPartitionsToTxn, AddOffsetsToTxn).
    """

    producer_id: int
    partitions: tuple[int, ...]
    groups: tuple[str, ...]


class TransactionWritten(Event, frozen=True, tag=52):
    """first_offsets: (partition number, offset) of the first batch in each partition.

    It stands behind the WalCommitted with these batches.
    """

    producer_id: int
    first_offsets: tuple[tuple[int, int], ...]


class OffsetsStaged(Event, frozen=True, tag=53):
    """Offsets of a group, committed if the transaction is.  claim_epoch: see GroupChanged."""

    producer_id: int
    group_id: str
    claim_epoch: int
    offsets: tuple[CommittedOffset, ...]
    tenant: int = 0


CAUSE_CLIENT: Final = 0
CAUSE_TIME_OUT: Final = 1
CAUSE_INITIALISED: Final = 2
CAUSE_OPERATOR: Final = 3
CAUSE_RESTORED: Final = 4
"""Only in the state: see TransactionFolds.timeline_opened."""


class TransactionEnded(Event, frozen=True, tag=54):
    """Commits or aborts the open transaction of a producer.

    marker_epoch: in the markers.  next_producer_id, next_epoch: of the transactional id from now
      on.  markers: (partition number, offset), one for each partition of the transaction.
    timestamp_ms: of the markers, log time.  cause: CAUSE_*.
    """

    producer_id: int
    committed: bool
    marker_epoch: int
    next_producer_id: int
    next_epoch: int
    markers: tuple[tuple[int, int], ...]
    timestamp_ms: int
    cause: int


class TransactionalIdsExpired(Event, frozen=True, tag=55):
    """These ids are forgotten: none has an open transaction, and none was used for long."""

    transactional_ids: tuple[str, ...]
    tenant: int = 0
