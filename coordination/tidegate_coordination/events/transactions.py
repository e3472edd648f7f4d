"""Events of transactions (tags 50 to 55).  tenant: see cluster.py.

A transaction has no prepared state: TransactionEnded is its whole end, and data, offsets and
markers become visible with that one entry.  TransactionGrew, TransactionWritten and OffsetsStaged
begin a transaction if the producer has none.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from .cluster import Event
from .fields import LAST_EPOCH, ClientEpoch, ClientProducerId, Since, Tenant, Within
from .groups import CommittedOffset
from .metadata_versions import SWITCHES, TRANSACTIONS


class TransactionalIdInitialised(Event, frozen=True, tag=50):
    """A transactional id has this producer id and epoch from now on; older ones are fenced.

    last_epoch: the epoch that a repeated request may still name (KIP-360); -1: none.
    previous_producer_id: the former producer id, if its epochs ran out; -1: none. state: see
    TransactionState; the state of an id that moved here from the source of a link.
    """

    level: ClassVar[int] = TRANSACTIONS

    transactional_id: str
    producer_id: ClientProducerId
    producer_epoch: ClientEpoch
    last_epoch: Annotated[int, Within(range(-1, LAST_EPOCH + 1))]
    previous_producer_id: int
    timeout_ms: Annotated[int, Within(range(1 << 31))]
    tenant: Tenant = 0
    state: Annotated[int, Since(SWITCHES)] = 0


class TransactionGrew(Event, frozen=True, tag=51):
    """Partitions, by number, and groups were added before anything is written to them.

    Clients of transaction.version 0 and 1 add them (AddPartitionsToTxn, AddOffsetsToTxn).  The
    tenant of the groups is that of the transactional id that has the producer id.
    """

    level: ClassVar[int] = TRANSACTIONS

    producer_id: int
    partitions: tuple[int, ...]
    groups: tuple[str, ...]


class TransactionWritten(Event, frozen=True, tag=52):
    """first_offsets: (partition number, offset) of the first batch in each partition.

    The event follows the WalCommitted with these batches.
    """

    level: ClassVar[int] = TRANSACTIONS

    producer_id: int
    first_offsets: tuple[tuple[int, int], ...]


class OffsetsStaged(Event, frozen=True, tag=53):
    """Offsets of a group, committed if the transaction is.  claim_epoch: see GroupChanged."""

    level: ClassVar[int] = TRANSACTIONS

    producer_id: int
    group_id: str
    claim_epoch: int
    offsets: tuple[CommittedOffset, ...]
    tenant: Tenant = 0


CAUSE_CLIENT: Final = 0
CAUSE_TIME_OUT: Final = 1
CAUSE_INITIALISED: Final = 2
CAUSE_OPERATOR: Final = 3
CAUSE_RESTORED: Final = 4
"""Only in the state: see TransactionFolds.timeline_opened."""


class TransactionEnded(Event, frozen=True, tag=54):
    """Commits or aborts the open transaction of a producer.

    marker_epoch: the producer epoch in the markers. next_producer_id, next_epoch: the producer id
    and epoch of the transactional id from now on.  markers: (partition number, offset), one for
    each partition of the transaction.
    timestamp_ms: the time stamp of the markers, in log time.
    cause: CAUSE_*.
    """

    level: ClassVar[int] = TRANSACTIONS

    producer_id: int
    committed: bool
    marker_epoch: Annotated[int, Within(range(LAST_EPOCH + 2))]
    next_producer_id: ClientProducerId
    next_epoch: ClientEpoch
    markers: tuple[tuple[int, int], ...]
    timestamp_ms: int
    cause: Annotated[int, Within(range(1 << 8))]


class TransactionalIdsExpired(Event, frozen=True, tag=55):
    """These ids are forgotten: they have no open transaction, and have long been unused."""

    level: ClassVar[int] = TRANSACTIONS

    transactional_ids: tuple[str, ...]
    tenant: Tenant = 0
