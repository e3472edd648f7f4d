"""A transactional id as its coordinator's log has it: states, ids and epochs (KIP-98).  Pure.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing ...
                     -> PrepareAbort  -> CompleteAbort  -> Ongoing ...

A prepare state lasts until each partition has its marker.  All of it is durable: another broker
that becomes the coordinator continues.  The steps of clients are in transactions/steps.py and
transactions/ends.py, the markers in transactions/markers.py, the timers in transactions/keeper.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC, offsets_partition
from tidegate_protocol.error_codes import ErrorCode

from .model_topics import PartitionKey
from .refusals import Refused

NOTHING: Final = -1
"""No producer id, no epoch, no time."""
LAST_EPOCH: Final = 32_766
"""The last epoch that a client gets; its next step brings a new producer id."""
_OFFSETS_PARTITIONS: Final = 50


class TransactionState(Enum):
    """A state; its value is Kafka's name for it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMPLETE: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


@dataclass(slots=True)
class TransactionSettings:
    """The settings of the brokers.

    marker_seconds: the longest wait before markers are written.
    abort_interval_seconds: how often the coordinator looks for time-outs.
    retry_seconds: how long a Produce or TxnOffsetCommit that adds a partition waits for markers.
    """

    marker_seconds: float = 0.05
    abort_interval_seconds: float = 10.0
    max_timeout_ms: int = 900_000
    retry_seconds: float = 0.1


def offsets_key(group_id: str) -> PartitionKey:
    """Return the partition of `__consumer_offsets` that stands for a group in a transaction."""
    return PartitionKey(OFFSETS_TOPIC, offsets_partition(group_id, _OFFSETS_PARTITIONS))


@dataclass(slots=True, eq=False)
class ModelTransaction:
    """A transactional id; see the module's head.

    last_epoch: the epoch of a request that may be repeated; NOTHING if none may.
    previous_producer_id: the one before the last change.  next_producer_id: the one after the
    present end.  partitions: those that still need a marker.  markers: the offsets of markers that
    are written, and not yet replicated.
    not_before: when to write markers, or to try again, in seconds.
    is_kept: a task of the model runs its timers.
    is_loading: its coordinator still reads its log, as after a move; set it at any time.
    """

    transactional_id: str
    producer_id: int
    epoch: int = NOTHING
    last_epoch: int = NOTHING
    previous_producer_id: int = NOTHING
    next_producer_id: int = NOTHING
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: dict[PartitionKey, None] = field(default_factory=dict[PartitionKey, None])
    markers: dict[PartitionKey, int] = field(default_factory=dict[PartitionKey, int])
    started_ms: int = NOTHING
    not_before: float = 0.0
    is_kept: bool = False
    is_loading: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Return whether its producer id has no epoch left for a client."""
        return self.epoch >= LAST_EPOCH

    @property
    def is_prepared(self) -> bool:
        """Return whether the end of the transaction is decided, and markers are missing."""
        return self.state in PREPARED

    @property
    def commits(self) -> bool:
        """Return whether the end that is under way is a commit."""
        return self.state is TransactionState.PREPARE_COMMIT

    def check_producer(self, producer_id: int, epoch: int) -> None:
        """Check the producer id and epoch of a request, as strictly as Kafka.

        Raises:
          Refused: INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
        """
        if producer_id != self.producer_id:
            raise refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if epoch != self.epoch:
            raise refused(ErrorCode.PRODUCER_FENCED)

    def check_settled(self) -> None:
        """Check that no end is under way.

        Raises:
          Refused: CONCURRENT_TRANSACTIONS.
        """
        if self.is_prepared:
            raise refused(ErrorCode.CONCURRENT_TRANSACTIONS)

    # -- transitions ------------------------------------------------------------------------------

    def take_identity(self, producer_id: int, epoch: int, last_epoch: int) -> None:
        """Continue with this producer id and epoch."""
        self.previous_producer_id, self.producer_id = self.producer_id, producer_id
        self.epoch, self.last_epoch = epoch, last_epoch

    def become_empty(self, timeout_ms: int) -> None:
        """Enter the state Empty, for a producer that has just got its epoch."""
        self.state = TransactionState.EMPTY
        self.timeout_ms = timeout_ms
        self.started_ms = NOTHING

    def grow(self, keys: Iterable[PartitionKey], now_ms: int) -> None:
        """Add partitions; the first ones begin a transaction."""
        if self.state is not TransactionState.ONGOING:
            self.state = TransactionState.ONGOING
            self.started_ms = now_ms
        self.previous_producer_id = self.producer_id
        self.partitions.update(dict.fromkeys(keys))

    def prepare(self, *, commits: bool) -> None:
        """Decide the end; ids and epochs are set already."""
        self.state = TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT
        self.previous_producer_id = self.producer_id

    def marked(self, key: PartitionKey) -> None:
        """Note that a partition has its marker."""
        self.partitions.pop(key, None)
        self.markers.pop(key, None)

    def complete(self) -> None:
        """Note that all partitions have their markers; a new producer id begins with epoch 0."""
        self.state = _COMPLETE[self.state]
        self.previous_producer_id = self.producer_id
        if self.next_producer_id != NOTHING:
            self.producer_id, self.epoch = self.next_producer_id, 0
            self.next_producer_id = NOTHING


def refused(code: ErrorCode) -> Refused:
    """Return the refusal of a step."""
    return Refused(code, code.name, tells_log_start=False)
