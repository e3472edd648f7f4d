"""What the state knows of a transactional id, in 49 bytes; few of many ids are in use.  Pure."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

NO_ID: Final = -1
NO_EPOCH: Final = -1
LAST_EPOCH: Final = 32_766
"""The highest epoch that a client gets.  A marker may have one more."""
FENCING_EPOCH: Final = 32_767
"""Of an id whose clients are all fenced."""


class TransactionState(IntEnum):
    """Kafka's states, with its numbers; those of a prepared end do not exist here."""

    EMPTY = 0
    ONGOING = 1
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def shown(self) -> str:
        """Return Kafka's name of the state."""
        return _SHOWN[self]


_SHOWN: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
}


class TransactionalId(NamedTuple):
    """A transactional id.

    last_epoch, previous_producer_id: see events.TransactionalIdInitialised.  started_ms,
    began: log time and position of the entry that began the open transaction, or the last one; -1
    before the first.  An abort without a transaction starts when it ends, as in Kafka.
    updated_ms: log time of the last change.
    """

    producer_id: int
    epoch: int
    last_epoch: int
    previous_producer_id: int
    timeout_ms: int
    state: TransactionState
    started_ms: int
    updated_ms: int
    began: int

    @property
    def is_open(self) -> bool:
        """Return whether a transaction is open."""
        return self.state is TransactionState.ONGOING

    def has_epoch(self, epoch: int) -> bool:
        """Return whether a client has the present epoch; no client has FENCING_EPOCH."""
        return epoch == self.epoch <= LAST_EPOCH

    @property
    def has_no_epoch_left(self) -> bool:
        """Return whether the next bump needs another producer id."""
        return self.epoch >= LAST_EPOCH


_ROW: Final = Struct("<qhhqiBqqq")
_STARTED: Final = Struct("<q")
_STARTED_AT: Final = 25


def packed(row: TransactionalId) -> bytes:
    """Return a row's bytes."""
    return _ROW.pack(*row)


def unpacked(data: bytes) -> TransactionalId:
    """Return the row that packed() was called with."""
    row = TransactionalId._make(_ROW.unpack(data))
    return row._replace(state=TransactionState(row.state))


def started_ms(data: bytes) -> int:
    """Return that field of packed(), for a look at many rows."""
    started: int = _STARTED.unpack_from(data, _STARTED_AT)[0]
    return started
