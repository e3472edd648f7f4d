"""Judges the batches of transactional producers; part of a WAL commit, see wal.py.

The judge decides at the log position of the commit, so it needs no verification in advance, as
Kafka does (KIP-890).  If a batch was stored before its transaction ended, and its commit comes
afterwards, the batch is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from ...events.transactions import TransactionGrew, TransactionWritten
from ...state.transactions.open import NOTHING_WRITTEN
from ...state.transactions.rows import TransactionState
from ..proposal import View
from ..transaction_overlay import OverlaidId
from ..transactions.growing import is_too_large

TRANSACTIONAL: Final = 1
"""A bit of BatchFacts.flags: the batch is part of a transaction."""
MAY_ADD: Final = 2
"""A bit of BatchFacts.flags: the batch adds its partition to the transaction (Produce v12 and
later).
"""
_BEGAN_SHIFT: Final = 8


def with_began(flags: int, began: int) -> int:
    """Return flags of a batch that belongs to the transaction that began at a position.

    Without MAY_ADD the epoch does not distinguish a transaction from the next one.  A batch may
    wait for the object store while its client gives up, aborts and begins another transaction.
    """
    return flags | began << _BEGAN_SHIFT


def began_of(flags: int) -> int:
    """Return where the transaction of a batch began; 0 if the flags do not say so."""
    return flags >> _BEGAN_SHIFT


class Misfit(Enum):
    """Why a batch does not fit its transaction."""

    UNKNOWN_ID = "no transactional id has the producer id"
    STALE_EPOCH = "the transactional id has another epoch"
    NOT_ADDED = "its partition was not added to a transaction"
    LATE = "its transaction has ended, and another is open"
    NOT_TRANSACTIONAL = "a transaction of the producer is open in the partition"
    TOO_LARGE = "the transaction has too many partitions"


class TransactionJudge:
    """Judges batches of one object, and notes which add or begin their partition."""

    def __init__(self, view: View) -> None:
        self._view: Final = view
        # By producer id; only this judge changes it while one object is judged.
        self._found: Final[dict[int, OverlaidId | None]] = {}
        self._added: Final[dict[int, dict[int, None]]] = {}
        self._first_offsets: Final[dict[int, dict[int, int]]] = {}

    def is_inside(self, producer_id: int, number: int) -> bool:
        """Return whether a producer has records of an open transaction in a partition."""
        found = self._of_producer(producer_id)
        return found is not None and found.row.is_open and found.has_written(number)

    def fit(self, flags: int, producer_id: int, epoch: int, number: int) -> Misfit | None:
        """Return why a transactional batch is no part of a transaction.

        The first batch of version 2 adds its partition, even if the batch is then refused. It runs
        once for every transactional batch, so it must be fast.
        """
        found = self._found.get(producer_id) or self._of_producer(producer_id)
        if found is None:
            return Misfit.UNKNOWN_ID
        row = found.row
        if not row.has_epoch(epoch):
            return Misfit.STALE_EPOCH
        if row.state is TransactionState.ONGOING and number in found.partitions:
            began = began_of(flags)
            return Misfit.LATE if began and began != row.began else None
        if not flags & MAY_ADD:
            return Misfit.NOT_ADDED
        if is_too_large(found, 1, 0):
            return Misfit.TOO_LARGE
        found.begin(self._view.log_time_ms, self._view.transactions.position)
        found.partitions[number] = NOTHING_WRITTEN
        self._added.setdefault(producer_id, {})[number] = None
        return None

    def accept(self, producer_id: int, number: int, offset: int) -> None:
        """Note a batch; the first of its transaction in the partition sets where that begins."""
        found = self._found[producer_id]
        assert found is not None, "a batch without its transactional id is no part of a transaction"
        if found.partitions[number] == NOTHING_WRITTEN:
            found.partitions[number] = offset
            self._first_offsets.setdefault(producer_id, {})[number] = offset

    def events(self) -> Iterator[TransactionGrew | TransactionWritten]:
        """Yield the events that follow the commit."""
        for producer_id, added in self._added.items():
            written = self._first_offsets.get(producer_id, {})
            unwritten = tuple(number for number in added if number not in written)
            if unwritten:
                yield TransactionGrew(producer_id, unwritten, ())
        for producer_id, first_offsets in self._first_offsets.items():
            yield TransactionWritten(producer_id, tuple(first_offsets.items()))

    def _of_producer(self, producer_id: int) -> OverlaidId | None:
        if producer_id not in self._found:
            self._found[producer_id] = self._view.transactions.of_producer(producer_id)
        return self._found[producer_id]
