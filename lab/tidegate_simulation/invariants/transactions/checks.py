"""Transactions in the cluster state, after every entry: invariants 9 to 14.

     9   the open offsets of partitions are those of the ongoing transactions, the last stable
         offset is the lowest of them
    10   see transactional_ids.py
    11   no transactional batch is outside a transaction, and no other batch of its producer inside
    12   see aborted_checks.py
    13   see staged_offsets.py
    14   see transactional_ids.py

The models know the events of the log, and the headers of stored batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import groups as gev
from tidegate_coordination.events import inlined as iev
from tidegate_coordination.events import links as kev
from tidegate_coordination.events import transactions as tev
from tidegate_coordination.events.entries import AnyEvent
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.objects import WalName
from tidegate_coordination.state.records.partitions import Partition

from .aborted_checks import AbortedWatch
from .batch_walk import walk
from .partition_transactions import PartitionTransactions
from .past import Past
from .staged_offsets import OffsetKey, StagedOffsets
from .transactional_ids import NOT_WRITTEN, ModelId, TransactionalIds


class IdView(NamedTuple):
    """A transactional id, as tools may show it.  partitions: numbers."""

    state: str
    producer_id: int
    epoch: int
    partitions: frozenset[int]
    groups: frozenset[str]


class OffsetView(NamedTuple):
    """A group's offset in a partition, as a client may see it; offset: -1 for none."""

    offset: int
    is_pending: bool


# The events that may follow that of an object before its transactions are complete.
_OF_COMMIT: Final = (tev.TransactionGrew, tev.TransactionWritten, iev.BatchesInlined)


class _Written(NamedTuple):
    """A transactional batch; one of the next events of the entry may begin its transaction."""

    number: int
    offset: int
    producer_id: int


class TransactionWatch:
    """See the module's head.

    Args:
      state: the extra replica; its owner folds the entries.
      broken: called with the number of an invariant, and how it is broken.
      body_of: returns an object that was stored, or None.
      id_retention_ms: for how long an idle transactional id is kept.
      count: called with the kind of each end.

    past_ids, past_open, past_offsets: the former values, by position; open: as in Partition.
    """

    def __init__(
        self,
        state: ClusterState,
        broken: Callable[[int, str], None],
        body_of: Callable[[str], bytes | None],
        *,
        id_retention_ms: int,
        count: Callable[[str], None],
    ) -> None:
        self._state = state
        self._broken = broken
        self._body_of = body_of
        self._id_retention_ms = id_retention_ms
        self.ids: Final = TransactionalIds(broken, count)
        self.offsets: Final = StagedOffsets()
        self.past_ids: Final = Past[str, IdView | None](None)
        self.past_open: Final = Past[int, dict[int, int]]({})
        self.past_offsets: Final = Past[tuple[str, OffsetKey], OffsetView](OffsetView(-1, False))
        self._aborted: Final = AbortedWatch(state, broken, body_of)
        self._partitions: dict[int, PartitionTransactions] = {}
        self._known: defaultdict[str, set[OffsetKey]] = defaultdict(set)
        self._new: list[_Written] = []
        self._touched: set[int] = set()
        self._names: set[str] = set()
        self._groups: set[str] = set()
        self._now_ms = 0
        self._position = 0

    # -- before the fold --------------------------------------------------------------------------

    def begin(self, position: int, now_ms: int) -> None:
        """Begin an entry; now_ms: its log time."""
        self._position, self._now_ms = position, now_ms
        self._touched.clear()
        self._names.clear()
        self._groups.clear()

    def before(self, event: AnyEvent) -> None:
        """Take the next event of the entry."""
        if self._new and not isinstance(event, _OF_COMMIT):
            self._settle_written()
        match event:
            case ev.WalCommitted():
                self._committed(event)
            case ev.TopicDeleted():
                self._topic_deleted(event)
            case ev.LogStartsMoved():
                self._touched |= {number for number, _ in event.moves}
            case kev.MirrorsPlaced():
                self._placed(event)
            case iev.InlineMoved():
                self._touched |= {each.partition for each in event.stretches}
            case ev.SegmentsPublished():
                self._touched |= {each.partition for each in event.partitions}
            case gev.OffsetsCommitted() | gev.OffsetsDeleted() | gev.GroupDeleted():
                self._group(event)
            case _:
                self._transaction(event)

    def _transaction(self, event: AnyEvent) -> None:
        match event:
            case tev.TransactionalIdInitialised():
                self._names.add(self.ids.initialised(event, self._now_ms).name)
            case tev.TransactionGrew():
                self._grew(event)
            case tev.TransactionWritten():
                self._written(event)
            case tev.OffsetsStaged():
                self._staged(event)
            case tev.TransactionEnded():
                self._ended(event)
            case tev.TransactionalIdsExpired():
                self._names |= set(event.transactional_ids)
                self.ids.expired(event, self._now_ms, self._id_retention_ms)
            case _:
                pass

    def _committed(self, event: ev.WalCommitted) -> None:
        """11: read the headers of the committed batches."""
        key = object_key(self._state, WalName(event.incarnation, event.counter))
        body = self._body_of(key)
        if body is None:
            return  # StateWatch has complained
        for run in event.runs:
            own = self._partition(run.partition)
            if run.flags & ev.RUN_FINAL:
                self._mirrored(own, body, run)
                continue
            offset = run.base_offset
            for batch in walk(body, run.position, run.position + run.length):
                if batch.is_control:
                    self._broken(11, f"{key} holds a marker, of producer {batch.producer_id}")
                elif batch.is_transactional:
                    self._batch(run.partition, offset, batch.producer_id, batch.epoch)
                elif batch.producer_id in own.open:
                    text = f"partition {run.partition}: a plain batch at {offset}"
                    self._broken(11, f"{text} in a transaction of producer {batch.producer_id}")
                offset += batch.offsets
            own.next_offset = offset

    @staticmethod
    def _mirrored(own: PartitionTransactions, body: bytes, run: ev.Run) -> None:
        """Take the batches of a source, which include the markers of its transactions."""
        for batch in walk(body, run.position, run.position + run.length):
            if batch.is_control:
                own.end(batch.producer_id, batch.offset, committed=bool(batch.kind))
            elif batch.is_transactional:
                own.write(batch.producer_id, batch.offset)
        own.next_offset = run.base_offset + run.record_count

    def _placed(self, event: kev.MirrorsPlaced) -> None:
        """End transactions of a source that has no records up to a later end."""
        for place in event.places:
            own, partition = (
                self._partition(place.partition),
                self._state.partitions[place.partition],
            )
            if place.next_offset <= partition.next_offset:
                continue
            if place.log_start >= partition.next_offset:
                own.open.clear()
            for producer_id in list(own.open):
                own.end(producer_id, place.next_offset - 1, committed=False)
            own.next_offset = place.next_offset

    def _batch(self, number: int, offset: int, producer_id: int, epoch: int) -> None:
        found = self.ids.of(producer_id, f"a batch at {offset} of partition {number}")
        if found is not None and epoch != found.epoch:
            text = f"partition {number}: a batch at {offset} has epoch {epoch}"
            self._broken(11, f"{text}, and {found.name} has {found.epoch}")
        self._new.append(_Written(number, offset, producer_id))

    def _settle_written(self) -> None:
        """11: each new batch is part of an open transaction by now."""
        for number, offset, producer_id in self._new:
            found = self.ids.by_producer.get(producer_id)
            first = found.partitions.get(number, NOT_WRITTEN) if found is not None else NOT_WRITTEN
            is_in = found is not None and found.is_open and 0 <= first <= offset
            if not is_in:
                text = f"partition {number}: the batch at {offset} of producer {producer_id}"
                self._broken(11, f"{text} is in no transaction")
            self._partition(number).write(producer_id, offset)
        self._new.clear()

    def _grew(self, event: tev.TransactionGrew) -> None:
        found = self.ids.of(event.producer_id, "a growth")
        if found is None:
            return
        found.begin(self._now_ms, self._position)
        self._names.add(found.name)
        for number in event.partitions:
            found.partitions.setdefault(number, NOT_WRITTEN)
        found.groups |= set(event.groups)

    def _written(self, event: tev.TransactionWritten) -> None:
        found = self.ids.of(event.producer_id, "a first batch")
        if found is None:
            return
        found.begin(self._now_ms, self._position)
        self._names.add(found.name)
        for number, offset in event.first_offsets:
            if _Written(number, offset, event.producer_id) not in self._new:
                self._broken(11, f"{event}: no batch is at {offset} of partition {number}")
            if found.partitions.get(number, NOT_WRITTEN) != NOT_WRITTEN:
                self._broken(9, f"{event}: {found.name} began in partition {number} before")
            found.partitions[number] = offset

    def _staged(self, event: tev.OffsetsStaged) -> None:
        found = self.ids.of(event.producer_id, "an offset")
        if found is None:
            return
        found.begin(self._now_ms, self._position)
        found.groups.add(event.group_id)
        self._names.add(found.name)
        self._groups.add(event.group_id)
        self.offsets.stage(found.name, event.group_id, event.offsets)

    def _ended(self, event: tev.TransactionEnded) -> None:
        found = self.ids.ended(event, self._now_ms)
        if found is None:
            return
        self._names.add(found.name)
        for number, offset in event.markers:
            own = self._partition(number)
            if own.next_offset not in (-1, offset):
                text = f"partition {number}: a marker at {offset}, and {own.next_offset} is next"
                self._broken(10, text)
            own.end(event.producer_id, offset, committed=event.committed)
        self._groups |= self.offsets.end(found.name, committed=event.committed)

    def _group(self, event: gev.OffsetsCommitted | gev.OffsetsDeleted | gev.GroupDeleted) -> None:
        self._groups.add(event.group_id)
        match event:
            case gev.OffsetsCommitted():
                self.offsets.commit(event.group_id, event.offsets)
            case gev.OffsetsDeleted():
                self.offsets.delete(event.group_id, event.partitions)
            case gev.GroupDeleted():
                self.offsets.delete(event.group_id)

    def _topic_deleted(self, event: ev.TopicDeleted) -> None:
        gone = set(self._state.topics.get(event.topic_id).partition_numbers)
        for number in gone:
            self._partitions.pop(number, None)
        for each in self.ids.by_name.values():
            if not gone.isdisjoint(each.partitions):
                self._names.add(each.name)
                each.partitions = {n: at for n, at in each.partitions.items() if n not in gone}
        self._groups |= self.offsets.delete_topic(event.topic_id)

    def _partition(self, number: int) -> PartitionTransactions:
        self._touched.add(number)
        return self._partitions.setdefault(number, PartitionTransactions())

    # -- after the fold ---------------------------------------------------------------------------

    def after(self, *, whole: bool) -> None:
        """Compare the state with the models; whole: all of it, not only what the entry touched."""
        self._settle_written()
        table, names = self._state.transactions, self._names
        if whole:
            names = names | self.ids.by_name.keys() | set(table.names())
            self._touched |= self._partitions.keys()
            self._groups |= self.offsets.staging()
        for name in sorted(names):
            self._check_id(name)
        for number in sorted(self._touched):
            partition = self._state.partitions.get(number)
            if partition is not None:
                self._check_partition(partition)
        for group_id in sorted(self._groups):
            self._check_group(group_id)

    def _check_id(self, name: str) -> None:
        """9: the rows of ids."""
        row, model = self._state.transactions.get(name), self.ids.by_name.get(name)
        self.past_ids.note(name, self._position, _view(model))
        transaction = self._state.transactions.open_of(name)
        if row is None or model is None:
            if row is not None or model is not None:
                self._broken(9, f"id {name}: {row}, and {model} is expected")
            return
        kept = (row.producer_id, row.epoch, row.state.shown)
        expected = (model.producer_id, model.epoch, model.state)
        partitions = transaction.partitions.as_dict() if transaction is not None else {}
        if kept != expected or (transaction is not None) != model.is_open:
            self._broken(9, f"id {name}: {kept}, and {expected} is expected")
        elif partitions != model.partitions:
            self._broken(9, f"id {name} has {partitions}, and {model.partitions} is expected")

    def _check_partition(self, partition: Partition) -> None:
        """9: open offsets, and the last stable one; 12."""
        own = self._partition(partition.number)
        self.past_open.note(partition.number, self._position, dict(own.open))
        where = f"partition {partition.number}"
        opened = partition.open.as_dict() if partition.open is not None else {}
        if opened != own.open:
            self._broken(9, f"{where}: {opened} are open, and {own.open} is expected")
        expected = own.stable_offset(partition.log_start, partition.next_offset)
        if partition.last_stable_offset != expected:
            text = f"{where}: the LSO is {partition.last_stable_offset}"
            self._broken(9, f"{text}, and {expected} is expected")
        self._aborted.check(partition, own)

    def _check_group(self, group_id: str) -> None:
        """13: committed offsets, and which are pending."""
        group = self._state.groups.get(group_id)
        kept = {
            (topic_id, index): each.offset
            for topic_id, of_topic in (group.offsets.items() if group is not None else ())
            for index, each in of_topic.items()
        }
        rows = self.offsets.committed.get(group_id, {})
        expected = {key: placed.offset for key, placed in rows.items()}
        if kept != expected:
            wrong = dict(_different(kept, expected))
            self._broken(13, f"group {group_id}: offset and expected one: {wrong}")
        pending = self.offsets.pending(group_id)
        keys = pending | kept.keys()
        for key in expected.keys() | pending | self._known[group_id]:
            view = OffsetView(expected.get(key, -1), key in pending)
            self.past_offsets.note((group_id, key), self._position, view)
        self._known[group_id] |= expected.keys() | pending
        shown = {key for key in keys if self._state.transactions.is_pending(group_id, key)}
        if shown != pending:
            self._broken(13, f"group {group_id}: {shown} are pending, and {pending} is expected")


def _view(model: ModelId | None) -> IdView | None:
    if model is None:
        return None
    numbers, groups = frozenset(model.partitions), frozenset(model.groups)
    return IdView(model.state, model.producer_id, model.epoch, numbers, groups)


def _different(
    one: dict[tuple[bytes, int], int], other: dict[tuple[bytes, int], int]
) -> Iterable[tuple[str, tuple[int | None, int | None]]]:
    for key in sorted(one.keys() | other.keys()):
        pair = (one.get(key), other.get(key))
        if pair[0] != pair[1]:
            yield f"{key[0].hex()}-{key[1]}", pair
