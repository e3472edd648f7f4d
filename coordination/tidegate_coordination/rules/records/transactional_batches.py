"""Judges the batches of transactional producers; part of a WAL commit, see wal.py.

The judge stands at the log position of the commit, so no verification comes before it, as Kafka
needs (KIP-890): a batch that was stored before its transaction ended, and commits afterwards, is
refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from ...events.transactions import TransactionWritten
from ...state.transactions.open import NOTHING_WRITTEN
from ..proposal import View
from ..transaction_overlay import OverlaidId
from ..transactions.growing import is_too_large

TRANSACTIONAL: Final = 1
"""Of BatchFacts.flags: the batch is part of a transaction."""
MAY_ADD: Final = 2
"""Of BatchFacts.flags: it adds its partition to the transaction (Produce v12 and later)."""
_BEGAN_SHIFT: Final = 8


def with_began(flags: int, began: int) -> int:
    """Return flags of a batch that belongs to the transaction that began at a position.

    Without MAY_ADD the epoch does not tell one transaction from the next.  A batch may wait for the
    object store while its client gives up, aborts and begins another.
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
    """Judges batches of one object, and notes which begin a transaction in their partition."""

    def __init__(self, view: View) -> None:
        self._view: Final = view
        self._first_offsets: dict[int, list[tuple[int, int]]] = {}

    def fence(self, flags: int, producer_id: int, epoch: int, number: int) -> Misfit | None:
        """Return why a producer may not write such a batch at all."""
        found = self._view.transactions.of_producer(producer_id)
        if not flags & TRANSACTIONAL:
            is_inside = found is not None and found.row.is_open and found.has_written(number)
            return Misfit.NOT_TRANSACTIONAL if is_inside else None
        if found is None:
            return Misfit.UNKNOWN_ID
        return None if epoch == found.row.epoch else Misfit.STALE_EPOCH

    def membership(self, flags: int, producer_id: int, number: int) -> Misfit | None:
        """Return why a batch that passed the fence is no part of a transaction."""
        found = self._id(producer_id)
        if found.row.is_open and number in found.partitions:
            is_of_another = began_of(flags) not in (0, found.row.began)
            return Misfit.LATE if is_of_another else None
        if not flags & MAY_ADD:
            return Misfit.NOT_ADDED
        return Misfit.TOO_LARGE if is_too_large(found, 1, 0) else None

    def accept(self, producer_id: int, number: int, offset: int) -> None:
        """Note a batch; the first of its transaction in the partition sets where that begins."""
        found = self._id(producer_id)
        found.begin(self._view.log_time_ms, self._view.transactions.position)
        if found.partitions.get(number, NOTHING_WRITTEN) == NOTHING_WRITTEN:
            found.partitions[number] = offset
            self._first_offsets.setdefault(producer_id, []).append((number, offset))

    def events(self) -> Iterator[TransactionWritten]:
        """Yield the events that follow the commit."""
        for producer_id, first_offsets in self._first_offsets.items():
            yield TransactionWritten(producer_id, tuple(first_offsets))

    def _id(self, producer_id: int) -> OverlaidId:
        found = self._view.transactions.of_producer(producer_id)
        assert found is not None, "a batch without its transactional id passed the fence"
        return found
