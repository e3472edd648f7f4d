"""Folds of transactions: their ids, their ends, and what else of the state takes part in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ...events import groups as gev
from ...events import transactions as tev
from ..broken import expect
from ..records.producers import with_marker
from ..records.runs import Marker, packed_marker
from ..tables import StateTables
from ..transactions.open import OffsetKey, OpenTransaction, StagedOffset


class TransactionFolds:
    """Folds the events of transactions, for ClusterState.apply()."""

    def __init__(self, state: StateTables) -> None:
        self._state: Final = state
        self._table: Final = state.transactions

    @property
    def _position(self) -> int:
        """Return the position of the entry under way."""
        return self._state.position + 1

    def fold_initialised(self, event: tev.TransactionalIdInitialised) -> None:
        """An id has a new producer epoch, or its first."""
        self._state.keep_transactions((event.transactional_id,))
        self._table.fold_initialised(event, self._state.log_time_ms)

    def fold_grew(self, event: tev.TransactionGrew) -> None:
        """Partitions and groups were added."""
        self._keep(event.producer_id)
        self._table.fold_grew(event, self._state.log_time_ms, self._position)

    def fold_written(self, event: tev.TransactionWritten) -> None:
        """A transaction has its first batches in partitions."""
        self._keep(event.producer_id)
        self._table.fold_written(event, self._state.log_time_ms, self._position)
        self._state.keep_partitions(number for number, _ in event.first_offsets)
        for number, offset in event.first_offsets:
            self._state.partitions[number].fold_transaction(event.producer_id, offset)

    def fold_staged(self, event: tev.OffsetsStaged) -> None:
        """Offsets wait for the end of a transaction; their group exists from now on."""
        self._keep(event.producer_id)
        self._state.keep_groups((event.group_id,))
        self._state.groups.begin(event.group_id, self._state.log_time_ms)
        self._table.fold_staged(event, self._state.log_time_ms, self._position)

    def fold_ended(self, event: tev.TransactionEnded) -> None:
        """Markers end the transaction in all its partitions; its offsets are committed or dropped.

        All rows that change are kept for the snapshots under way before the first change.
        """
        numbers = [number for number, _ in event.markers]
        name = self._table.name_of(event.producer_id) or ""
        transaction = self._table.open_of(name)
        # A client of version 2 may abort without an open transaction, to get the next epoch.
        is_open = transaction is not None or not event.committed
        expect(is_open, f"producer id {event.producer_id} has no open transaction")
        transaction = transaction or OpenTransaction()
        given = transaction.partitions.has_keys(numbers)
        expect(given, f"transactional id {name}: markers for other partitions than it has")
        if self._state.frozen_states:
            self._state.keep_partitions(numbers)
            self._state.keep_groups(list(transaction.groups))
            self._state.keep_transactions({name}.union(*self._sharing(transaction)))
        self._table.fold_ended(event, self._state.log_time_ms)
        if event.committed:
            for group_id, staged in transaction.to_commit():
                self._publish(group_id, staged)
        marker = Marker(event.producer_id, event.marker_epoch, event.committed, event.timestamp_ms)
        packed = packed_marker(marker)
        written = with_marker(None, event.marker_epoch, self._state.log_time_ms)
        partitions = self._state.partitions
        for number, offset in event.markers:
            partitions[number].fold_marker(offset, marker, packed, written)
        self._state.touched.update(numbers)

    def _publish(self, group_id: str, staged: Sequence[StagedOffset]) -> None:
        offsets = tuple(each.offset for each in staged)
        event = gev.OffsetsCommitted(group_id, 0, offsets)
        self._state.groups.fold_offsets_committed(event, self._state.log_time_ms)
        self._state.offsets_topic.committed(group_id, offsets)
        for each in staged:
            self._table.overtake(group_id, (each.offset,), each.order)

    def fold_expired(self, event: tev.TransactionalIdsExpired) -> None:
        """Ids are forgotten."""
        self._state.keep_transactions(event.transactional_ids)
        self._table.fold_expired(event)

    def timeline_opened(self) -> None:
        """Abort all open transactions, and fence all clients: the log has lost their last steps.

        Epochs may have risen in the lost entries, so each id gets a new producer id next time.
        """
        # Sorted: a replica that began with a snapshot does not know which one began first.
        for name in sorted(self._table.open_ids()):
            row, transaction = self._table.get(name), self._table.open_of(name)
            assert row is not None
            assert transaction is not None
            partitions = self._state.partitions
            ends = ((each, partitions[each].next_offset) for each in transaction.partitions)
            marks = (row.producer_id, False, row.epoch + 1, row.producer_id, row.epoch)
            cause = tev.CAUSE_RESTORED
            event = tev.TransactionEnded(*marks, tuple(ends), self._state.log_time_ms, cause)
            self.fold_ended(event)
        self._state.keep_transactions(self._table.names())
        self._table.fence_all()

    # -- what happens to groups and topics meanwhile ---------------------------------------------

    def offsets_committed(self, event: gev.OffsetsCommitted) -> None:
        """Let a plain commit overrule the offsets of its partitions that were staged before it."""
        if self._table.is_staging(event.group_id):
            keys = [(each.topic_id, each.partition) for each in event.offsets]
            self._state.keep_transactions(self._table.staging(event.group_id, keys))
            self._table.overtake(event.group_id, event.offsets, self._table.next_order)

    def committed_of(self, event: gev.OffsetsDeleted) -> gev.OffsetsDeleted:
        """Return the event without offsets that are only staged."""
        group = self._state.groups.get(event.group_id)
        keys = tuple(
            key
            for key in event.partitions
            if not self._table.is_pending(event.group_id, key)
            or (group is not None and group.offset(*key) is not None)
        )
        return gev.OffsetsDeleted(event.group_id, keys)

    def offsets_deleted(self, group_id: str, keys: Iterable[OffsetKey] | None = None) -> None:
        """Forget staged offsets, if committed offsets or a whole group are deleted."""
        gone = self._table.staged_keys(group_id) if keys is None else list(keys)
        self._state.keep_transactions(self._table.staging(group_id, gone))
        self._table.drop_offsets(group_id, gone)

    def topic_deleted(self, topic_id: bytes, numbers: Sequence[int]) -> None:
        """Open transactions lose the partitions and the offsets of the topic."""
        table = self._table
        gone = table.with_partitions(numbers)
        self._state.keep_transactions(gone)
        table.drop_partitions(gone)
        for group_id, keys in table.staged_of(topic_id):
            self._state.keep_transactions(table.staging(group_id, keys))
            table.drop_offsets(group_id, keys)

    def _keep(self, producer_id: int) -> None:
        name = self._table.name_of(producer_id)
        if name is not None:
            self._state.keep_transactions((name,))

    def _sharing(self, transaction: OpenTransaction) -> Iterator[set[str]]:
        """Yield the ids that have staged offsets of the same partitions."""
        for group_id, staged in transaction.groups.items():
            yield self._table.staging(group_id, staged)
