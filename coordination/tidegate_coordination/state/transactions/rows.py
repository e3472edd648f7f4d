"""The rows of transactional ids in the state: 49 bytes each; few of many ids are in use.  Pure.

In memory the number of the id follows (order.py), in the 8 bytes that the allocator leaves unused.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from ...events.fields import LAST_EPOCH

NO_ID: Final = -1
NO_EPOCH: Final = -1
FENCING_EPOCH: Final = 32_767
"""The epoch of an id whose clients are all fenced."""


class TransactionState(IntEnum):
    """Kafka's states, with its numbers; the states of a prepared end do not exist here."""

    EMPTY = 0
    ONGOING = 1
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def shown(self) -> str:
        """Return Kafka's name of the state."""
        return _SHOWN[self]


AT_REST: Final = frozenset(set(TransactionState) - {TransactionState.ONGOING})
"""No transaction is open."""
_STATES: Final = {int(state): state for state in TransactionState}
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
    before the first.  An abort without a transaction counts as started when it ended, as in Kafka.
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
ROW_BYTES: Final = _ROW.size
_NUMBERED: Final = Struct("<qhhqiBqqqq")
_NUMBER: Final = Struct("<q")
_STARTED_AT: Final = ROW_BYTES - 3 * 8
_UPDATED_AT: Final = ROW_BYTES - 2 * 8
_pack = _NUMBERED.pack
_unpack = _ROW.unpack_from


def packed(row: TransactionalId, number: int) -> bytes:
    """Return a row's bytes, the number last."""
    return _pack(*row, number)


def numbered(data: bytes, number: int) -> bytes:
    """Return the bytes of a row without its number with one."""
    return data + _NUMBER.pack(number)


def unpacked(data: bytes) -> TransactionalId:
    """Return the row of some bytes, with a number or without."""
    producer_id, epoch, last_epoch, previous, timeout_ms, state, *times = _unpack(data)
    # Keyword arguments, and the enumeration's own look-up, would take twice as long as all else
    # here.
    return TransactionalId(
        producer_id, epoch, last_epoch, previous, timeout_ms, _STATES[state], *times
    )


def number_of(data: bytes) -> int:
    """Return the number in a row's bytes."""
    (number,) = _NUMBER.unpack_from(data, ROW_BYTES)
    return int(number)


def started_ms_of(data: bytes) -> int:
    """Return the log time at which a row's last transaction began, without unpacking all of it."""
    (started_ms,) = _NUMBER.unpack_from(data, _STARTED_AT)
    return int(started_ms)


def updated_ms_of(data: bytes) -> int:
    """Return the log time of a row's last change, without unpacking all of it."""
    (updated_ms,) = _NUMBER.unpack_from(data, _UPDATED_AT)
    return int(updated_ms)
