"""All transactional ids, their open transactions, and the offsets these have staged.

Ids are kept in the order of their first use, which all replicas share, so a snapshot of a million
ids need not sort them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ...events import transactions as tev
from ...events.groups import CommittedOffset
from ..broken import expect
from ..frozen import FrozenRows
from .ends import Ends
from .open import NOTHING_WRITTEN, OffsetKey, OpenTransaction, StagedOffset
from .order import NameOrder
from .rows import (
    AT_REST,
    FENCING_EPOCH,
    NO_EPOCH,
    NO_ID,
    ROW_BYTES,
    TransactionalId,
    TransactionState,
    number_of,
    numbered,
    packed,
    started_ms_of,
    unpacked,
    updated_ms_of,
)
from .staged_names import StagedNames

_NEVER: Final = -1


class TransactionTable:
    """See the module's head. next_order: the order of the next staged offset.

    ends: counters for metrics, in no snapshot.
    """

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}
        self._order = NameOrder()
        self._names: dict[int, str] = {}
        self._open: dict[str, OpenTransaction] = {}
        # Made when a topic ends, and kept for the next one, as one entry may end many topics.
        # Transactions that have ended stay in it.
        self._open_in: dict[int, list[str]] | None = None
        self._staging: Final = StagedNames()
        self.next_order = 0
        self.ends: Final = Ends()

    def __len__(self) -> int:
        return len(self._rows)

    def names(self) -> Iterator[str]:
        """Yield the present transactional ids, in the order of their creation."""
        return self._order.names()

    def get(self, transactional_id: str) -> TransactionalId | None:
        """Return the row of a transactional id; None if the id is unknown."""
        row = self._rows.get(transactional_id)
        return unpacked(row) if row is not None else None

    def name_of(self, producer_id: int) -> str | None:
        """Return the transactional id that has the producer id now."""
        return self._names.get(producer_id)

    def open_of(self, transactional_id: str) -> OpenTransaction | None:
        """Return the open transaction of an id."""
        return self._open.get(transactional_id)

    def open_ids(self) -> Sequence[str]:
        """Return the ids with an open transaction."""
        return list(self._open)

    def open_rows(self) -> Iterator[tuple[int, OpenTransaction]]:
        """Yield each open transaction after the log time at which it began."""
        for name, each in self._open.items():
            yield started_ms_of(self._rows[name]), each

    def idle_since(self, before_ms: int) -> Iterator[str]:
        """Yield the ids that were last used before a log time, except open ones."""
        rows = self._rows
        idle = self._order.idle(before_ms, lambda name: updated_ms_of(rows[name]))
        return (name for name in idle if name not in self._open)

    def with_partitions(self, numbers: Iterable[int]) -> dict[str, list[int]]:
        """Return the partitions, of these, that open transactions contain, by id; ids without any
        are left out.
        """
        if self._open_in is None:
            self._open_in = self._by_partition()
        found: dict[str, list[int]] = {}
        for number in sorted(set(numbers)):
            for name in self._open_in.get(number, ()):
                transaction = self._open.get(name)
                if transaction is not None and transaction.is_in(number):
                    found.setdefault(name, []).append(number)
        return found

    def _by_partition(self) -> dict[int, list[str]]:
        open_in: dict[int, list[str]] = {}
        for name, each in self._open.items():
            for number in each.partitions:
                open_in.setdefault(number, []).append(name)
        return open_in

    def is_staging(self, group_id: str) -> bool:
        """Return whether an open transaction has staged offsets of a group."""
        return self._staging.has_group(group_id)

    def is_pending(self, group_id: str, key: OffsetKey) -> bool:
        """Return whether an open transaction has staged an offset of a partition (KIP-447)."""
        return self._staging.has(group_id, key)

    def staging(self, group_id: str, keys: Iterable[OffsetKey]) -> set[str]:
        """Return the ids whose open transactions have staged offsets of these partitions."""
        return self._staging.of(group_id, keys)

    def staged_keys(self, group_id: str) -> list[OffsetKey]:
        """Return the partitions of which open transactions have staged a group's offsets."""
        return self._staging.keys(group_id)

    # -- folds -----------------------------------------------------------------------------------

    def fold_initialised(self, event: tev.TransactionalIdInitialised, log_time_ms: int) -> None:
        """Give an id a producer id and epoch; its transaction has ended before."""
        name = event.transactional_id
        expect(name not in self._open, f"transactional id {name}: its transaction is open")
        expect(event.state in AT_REST, f"transactional id {name}: state {event.state}")
        holder = self._names.get(event.producer_id, name)
        expect(holder == name, f"producer id {event.producer_id} is that of {holder}")
        last = self.get(name)
        if last is not None:
            name = self._names.pop(last.producer_id)  # the only copy of the name that is kept
            number = number_of(self._rows[name])
        else:
            number = self._order.add(name, log_time_ms)
        row = TransactionalId(
            event.producer_id,
            event.producer_epoch,
            event.last_epoch,
            event.previous_producer_id,
            event.timeout_ms,
            TransactionState(event.state),
            _NEVER,
            log_time_ms,
            _NEVER,
        )
        self._rows[name] = packed(row, number)
        self._names[event.producer_id] = name

    def fold_grew(self, event: tev.TransactionGrew, log_time_ms: int, position: int) -> None:
        """Add partitions and groups."""
        name = self._known(event.producer_id)
        transaction = self._begun(name, log_time_ms, position)
        # in this order each is added at the end, which is fast
        for number in sorted(event.partitions):
            transaction.partitions.setdefault(number, NOTHING_WRITTEN)
        for group_id in event.groups:
            transaction.groups.setdefault(group_id, {})

    def fold_written(self, event: tev.TransactionWritten, log_time_ms: int, position: int) -> None:
        """Note where the transaction begins in partitions."""
        transaction = self._begun(self._known(event.producer_id), log_time_ms, position)
        for number, offset in event.first_offsets:
            first = transaction.partitions.get(number, NOTHING_WRITTEN)
            expect(first == NOTHING_WRITTEN, f"partition {number}: transaction begins twice")
            transaction.partitions[number] = offset

    def fold_staged(self, event: tev.OffsetsStaged, log_time_ms: int, position: int) -> None:
        """Keep offsets until the transaction ends."""
        name = self._known(event.producer_id)
        transaction = self._begun(name, log_time_ms, position)
        staged = transaction.groups.setdefault(event.group_id, {})
        keys = [(each.topic_id, each.partition) for each in event.offsets]
        for key, each in zip(keys, event.offsets, strict=True):
            staged[key] = StagedOffset(each, self.next_order)
        self.next_order += 1
        self._staging.add(event.group_id, keys, name)

    def fold_ended(self, event: tev.TransactionEnded, log_time_ms: int) -> None:
        """Close the transaction of a producer, if one is open."""
        name = self._known(event.producer_id)
        transaction = self._open.pop(name, None)
        if transaction is not None:
            for group_id, staged in transaction.groups.items():
                self._staging.remove(group_id, staged, name)
            self.ends.note(event, name)
        data = self._rows[name]
        row = unpacked(data)
        is_rotated = event.next_producer_id != row.producer_id
        is_bumped = is_rotated or event.next_epoch != row.epoch
        complete = TransactionState.COMPLETE_COMMIT
        after = TransactionalId(
            event.next_producer_id,
            event.next_epoch,
            row.epoch if is_bumped else row.last_epoch,
            row.producer_id if is_rotated else NO_ID,
            row.timeout_ms,
            complete if event.committed else TransactionState.COMPLETE_ABORT,
            row.started_ms if transaction is not None else log_time_ms,
            log_time_ms,
            row.began,
        )
        self._rows[name] = packed(after, number_of(data))
        if is_rotated:
            taken = event.next_producer_id in self._names
            expect(not taken, f"producer id {event.next_producer_id} is taken")
            self._names[event.next_producer_id] = self._names.pop(row.producer_id)

    def fold_expired(self, event: tev.TransactionalIdsExpired) -> None:
        """Forget ids."""
        for name in event.transactional_ids:
            expect(name in self._rows, f"transactional id {name} is unknown")
            expect(name not in self._open, f"transactional id {name}: its transaction is open")
            data = self._rows.pop(name)
            self._order.remove(number_of(data))
            del self._names[unpacked(data).producer_id]

    def fence_all(self) -> None:
        """Fence all clients: each id's next epoch needs another producer id."""
        for name, data in self._rows.items():
            row = unpacked(data)._replace(
                epoch=FENCING_EPOCH,
                last_epoch=NO_EPOCH,
                previous_producer_id=NO_ID,
                state=TransactionState.EMPTY,
            )
            self._rows[name] = packed(row, number_of(data))

    def overtake(self, group_id: str, offsets: Iterable[CommittedOffset], order: int) -> None:
        """Note commits of a group's offsets: those staged before `order` will not replace them."""
        for each in offsets:
            key = (each.topic_id, each.partition)
            for name in self._staging.of(group_id, (key,)):
                found = self._open[name].groups[group_id][key]
                if found.order < order:
                    found.is_overtaken = True

    def drop_partitions(self, gone: Mapping[str, Iterable[int]]) -> None:
        """Remove deleted partitions from open transactions; gone: see with_partitions."""
        for name, numbers in gone.items():
            partitions = self._open[name].partitions
            for number in numbers:
                del partitions[number]

    def drop_offsets(self, group_id: str, keys: Iterable[OffsetKey]) -> None:
        """Forget staged offsets of a group."""
        for key in keys:
            for name in self._staging.of(group_id, (key,)):
                del self._open[name].groups[group_id][key]
                self._staging.remove(group_id, (key,), name)

    def staged_of(self, topic_id: bytes) -> list[tuple[str, list[OffsetKey]]]:
        """Return the partitions of a topic with staged offsets, by group."""
        return list(self._staging.of_topic(topic_id))

    def _known(self, producer_id: int) -> str:
        name = self._names.get(producer_id)
        expect(name is not None, f"producer id {producer_id} has no transactional id")
        assert name is not None
        return name

    def _begun(self, name: str, log_time_ms: int, position: int) -> OpenTransaction:
        """Return the open transaction of an id; begin one if there is none."""
        transaction = self._open.get(name)
        self._open_in = None  # its partitions are about to change
        data = self._rows[name]
        row = unpacked(data)._replace(updated_ms=log_time_ms)
        if transaction is None:
            transaction = self._open[name] = OpenTransaction()
            row = row._replace(
                previous_producer_id=NO_ID,
                state=TransactionState.ONGOING,
                started_ms=log_time_ms,
                began=position,
            )
        self._rows[name] = packed(row, number_of(data))
        return transaction

    # -- snapshots -------------------------------------------------------------------------------

    def frozen(self) -> FrozenRows[str]:
        """Return all rows as they are now."""
        rows, end = self._rows, self._order.end

        def was_here(name: str) -> bool:
            data = rows.get(name)
            return data is not None and number_of(data) < end

        return FrozenRows("transactions", [self.names()], self._encode_row, was_here=was_here)

    def _encode_row(self, name: str) -> object:
        transaction = self._open.get(name)
        row: list[object] = [name, self._rows[name][:ROW_BYTES]]
        return [*row, transaction.encode()] if transaction is not None else row

    def decode(self, rows: Iterable[Any]) -> None:
        """Add some of the frozen rows, in their order."""
        for name, data, *more in rows:
            row = unpacked(data)
            self._rows[name] = numbered(data, self._order.add(name, row.updated_ms))
            self._names[row.producer_id] = name
            for each in more:
                transaction = self._open[name] = OpenTransaction.decode(each)
                for group_id, staged in transaction.groups.items():
                    self._staging.add(group_id, staged, name)
