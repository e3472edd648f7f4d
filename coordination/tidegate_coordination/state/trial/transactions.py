"""The part of a trial for transactions; see events.py.

Proposals of many transactions share an entry, so each id that an entry touches is followed from
event to event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...events import transactions as tev
from ..broken import expect
from ..tables import StateTables
from ..transactions.open import NOTHING_WRITTEN, OffsetKey, OpenTransaction
from ..transactions.rows import AT_REST
from .runs import RunTrial


@dataclass(slots=True)
class _Traced:
    """An id as it is after the events so far.  partitions: None while no transaction is open."""

    name: str
    epoch: int
    partitions: dict[int, int] | None

    @property
    def is_open(self) -> bool:
        return self.partitions is not None


class TransactionTrial:
    """The checks of events about transactions."""

    def __init__(self, state: StateTables, runs: RunTrial) -> None:
        self._state: Final = state
        self._runs: Final = runs
        self._traced: Final[dict[int, _Traced | None]] = {}  # by producer id; None: has none now
        self._new_names: Final[dict[str, int | None]] = {}  # None: the id has expired
        self._has_ended = False

    def initialised(self, event: tev.TransactionalIdInitialised) -> None:
        """Check that an id without open transaction gets an unused producer id, or its own."""
        name = event.transactional_id
        expect(bool(name), "a transactional id without a name")
        expect(event.state in AT_REST, f"transactional id {name}: state {event.state}")
        last_id = self._producer_of(name)
        last = self._of(last_id) if last_id is not None else None
        expect(last is None or not last.is_open, f"transactional id {name}: it is open")
        self._take_id(name, last_id, event.producer_id)
        self._traced[event.producer_id] = _Traced(name, event.producer_epoch, None)
        if last_id == event.producer_id and last is not None:
            is_risen = event.producer_epoch >= last.epoch
            expect(is_risen, f"transactional id {name}: epoch {event.producer_epoch} after a later")

    def grew(self, event: tev.TransactionGrew) -> None:
        """Check that the event's partitions exist."""
        partitions = self._begun(event.producer_id)
        for number in event.partitions:
            self._runs.expect_partition(number)
            partitions.setdefault(number, NOTHING_WRITTEN)

    def written(self, event: tev.TransactionWritten) -> None:
        """Check that each partition has the offset, and no earlier record of the transaction."""
        partitions = self._begun(event.producer_id)
        for number, offset in event.first_offsets:
            is_first = partitions.get(number, NOTHING_WRITTEN) == NOTHING_WRITTEN
            is_there = 0 <= offset < self._runs.end_of(number)
            expect(is_first and is_there, f"partition {number}: a transaction begins at {offset}")
            partitions[number] = offset

    def staged(self, event: tev.OffsetsStaged) -> None:
        """Check that the event's id may have a transaction."""
        self._begun(event.producer_id)

    def ended(self, event: tev.TransactionEnded) -> None:
        """Check that each partition gets one marker, where it ends."""
        self._has_ended = True
        traced = self._known(event.producer_id)
        partitions = traced.partitions
        is_open = partitions is not None or not event.committed
        expect(is_open, f"transactional id {traced.name}: nothing is open")
        numbers = {number for number, _ in event.markers}
        is_each = numbers == set(partitions or ()) and len(event.markers) == len(numbers)
        expect(is_each, f"transactional id {traced.name}: markers for {sorted(numbers)}")
        expect(event.marker_epoch >= traced.epoch, f"a marker of epoch {event.marker_epoch}")
        for number, offset in event.markers:
            self._runs.marker(number, offset)
        self._take_id(traced.name, event.producer_id, event.next_producer_id)
        self._traced[event.next_producer_id] = _Traced(traced.name, event.next_epoch, None)

    def expired(self, event: tev.TransactionalIdsExpired) -> None:
        """Check that no id has an open transaction."""
        for name in event.transactional_ids:
            producer_id = self._producer_of(name)
            traced = self._of(producer_id) if producer_id is not None else None
            is_idle = traced is not None and not traced.is_open
            expect(is_idle, f"transactional id {name} expires, but it is open or unknown")
            assert producer_id is not None
            self._traced[producer_id] = self._new_names[name] = None

    def is_pending(self, group_id: str, key: OffsetKey) -> bool:
        """Return whether an offset is staged, even if an earlier event ended its transaction."""
        return not self._has_ended and self._state.transactions.is_pending(group_id, key)

    def topic_deleted(self, numbers: list[int]) -> None:
        """Remove its partitions from open transactions."""
        for traced in self._traced.values():
            for number in numbers:
                if traced is not None and traced.partitions is not None:
                    traced.partitions.pop(number, None)

    def _take_id(self, name: str, last_id: int | None, producer_id: int) -> None:
        """Give an id another producer id, which no other id has, or its own again."""
        if producer_id == last_id:
            return
        expect(self._of(producer_id) is None, f"producer id {producer_id} is taken")
        if last_id is not None:
            self._traced[last_id] = None
        self._new_names[name] = producer_id

    def _producer_of(self, name: str) -> int | None:
        if name in self._new_names:
            return self._new_names[name]
        row = self._state.transactions.get(name)
        return row.producer_id if row is not None else None

    def _of(self, producer_id: int) -> _Traced | None:
        if producer_id not in self._traced:
            self._traced[producer_id] = self._present(producer_id)
        return self._traced[producer_id]

    def _present(self, producer_id: int) -> _Traced | None:
        name = self._state.transactions.name_of(producer_id)
        row = self._state.transactions.get(name) if name is not None else None
        if name is None or row is None:
            return None
        transaction: OpenTransaction | None = self._state.transactions.open_of(name)
        partitions = transaction.partitions.as_dict() if transaction is not None else None
        for number in list(partitions or ()):
            if self._runs.is_gone(number):
                assert partitions is not None
                del partitions[number]
        return _Traced(name, row.epoch, partitions)

    def _known(self, producer_id: int) -> _Traced:
        traced = self._of(producer_id)
        expect(traced is not None, f"producer id {producer_id} has no transactional id")
        assert traced is not None
        return traced

    def _begun(self, producer_id: int) -> dict[int, int]:
        traced = self._known(producer_id)
        if traced.partitions is None:
            traced.partitions = {}
        return traced.partitions
