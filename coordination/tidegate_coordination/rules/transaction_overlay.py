"""Transactional ids as they will be once the entry under construction is folded.

Ends of transactions share an entry with WAL commits and with each other, so each proposal must see
the decisions of earlier proposals of its entry.  An id is copied when the first proposal needs it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ..state.cluster import ClusterState
from ..state.transactions.open import NOTHING_WRITTEN
from ..state.transactions.rows import NO_ID, TransactionalId, TransactionState


@dataclass(slots=True)
class OverlaidId:
    """A transactional id.

    partitions, groups: those that its open transaction contains; see OpenTransaction.

    Staged offsets are not here: only the fold needs them.
    """

    name: str
    row: TransactionalId
    partitions: dict[int, int]
    groups: set[str]

    def begin(self, log_time_ms: int, position: int) -> None:
        """Begin a transaction, if none is open."""
        if not self.row.is_open:
            self.row = self.row._replace(
                previous_producer_id=NO_ID,
                state=TransactionState.ONGOING,
                started_ms=log_time_ms,
                began=position,
            )

    def has_written(self, number: int) -> bool:
        """Return whether the open transaction has records in a partition."""
        return self.partitions.get(number, NOTHING_WRITTEN) != NOTHING_WRITTEN


class TransactionOverlay:
    """Copies of the transactional ids that proposals of the same entry ask for."""

    def __init__(self, state: ClusterState) -> None:
        self._state: Final = state
        self._by_name: Final[dict[str, OverlaidId | None]] = {}
        self._names: Final[dict[int, str | None]] = {}

    @property
    def is_used(self) -> bool:
        """Return whether any proposal of the entry has asked for an id."""
        return bool(self._by_name)

    @property
    def position(self) -> int:
        """Return the position that the entry will have."""
        return self._state.position + 1

    def has_open(self, numbers: Collection[int]) -> bool:
        """Return whether an open transaction among the copies has a partition."""
        known = (each for each in self._by_name.values() if each is not None)
        return any(not each.partitions.keys().isdisjoint(numbers) for each in known)

    def of_producer(self, producer_id: int) -> OverlaidId | None:
        """Return the id that has a producer id now."""
        if producer_id in self._names:
            name = self._names[producer_id]
        else:
            name = self._state.transactions.name_of(producer_id)
        return self.of_name(name) if name is not None else None

    def of_name(self, name: str) -> OverlaidId | None:
        """Return an id; None if it is unknown."""
        if name not in self._by_name:
            self._by_name[name] = self._copied(name)
        return self._by_name[name]

    def _copied(self, name: str) -> OverlaidId | None:
        row = self._state.transactions.get(name)
        if row is None:
            return None
        transaction = self._state.transactions.open_of(name)
        if transaction is None:
            return OverlaidId(name, row, {}, set())
        return OverlaidId(name, row, transaction.partitions.as_dict(), set(transaction.groups))

    def forget(self, name: str) -> None:
        """Note that an id was forgotten."""
        last = self.of_name(name)
        if last is not None:
            self._names[last.row.producer_id] = None
        self._by_name[name] = None

    def put(self, name: str, row: TransactionalId) -> None:
        """Note an id's new row, in which it has no open transaction."""
        last = self.of_name(name)
        if last is not None and last.row.producer_id != row.producer_id:
            self._names[last.row.producer_id] = None
        self._names[row.producer_id] = name
        self._by_name[name] = OverlaidId(name, row, {}, set())
