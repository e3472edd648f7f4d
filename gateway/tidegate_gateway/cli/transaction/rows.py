"""Transactional ids and open transactions, as values to print.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.transactions.open import NOTHING_WRITTEN, OpenTransaction
from tidegate_coordination.state.transactions.rows import TransactionalId, TransactionState


@dataclass(frozen=True, slots=True)
class Filters:
    """states: empty for all.  longer_than_ms: an open transaction must be older, in log time.

    numbers: partitions; a transaction must be open in one of these.
    """

    states: frozenset[TransactionState] = frozenset()
    longer_than_ms: int | None = None
    numbers: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A transactional id.  open_ms: the age of its open transaction; None if none is open.

    started_ms: log time, as open_ms is.  partitions, groups: how many the open transaction has.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    open_ms: int | None
    partitions: int
    groups: int


@dataclass(frozen=True, slots=True)
class OpenPartition:
    """first_offset: of the transaction's records; None if it has no records there yet.

    last_stable_offset: the limit of read_committed consumers.  next_offset: the log end offset.
    """

    topic: str
    partition: int
    first_offset: int | None
    last_stable_offset: int
    next_offset: int

    @property
    def is_held(self) -> bool:
        """Return whether read_committed consumers wait for this transaction."""
        return self.first_offset is not None and self.first_offset == self.last_stable_offset


@dataclass(frozen=True, slots=True)
class Staged:
    """An offset that a commit would publish.  is_overtaken: the group committed a later one."""

    group: str
    topic: str
    partition: int
    offset: int
    is_overtaken: bool


@dataclass(frozen=True, slots=True)
class Details:
    """A transactional id, with its open transaction.  groups: also those without an offset."""

    row: Row
    partitions: list[OpenPartition] = field(default_factory=list[OpenPartition])
    groups: list[str] = field(default_factory=list[str])
    staged: list[Staged] = field(default_factory=list[Staged])


def rows_of(state: ClusterState, filters: Filters) -> list[Row]:
    """Return the ids that pass the filters: open ones, the oldest first; then others by name."""
    table = state.transactions
    only_open = filters.longer_than_ms is not None or filters.numbers is not None
    names = table.open_ids() if only_open else table.names()
    if filters.numbers is not None:
        names = list(table.with_partitions(filters.numbers))
    found = (_row(state, name) for name in names)
    return sorted((each for each in found if _passes(each, filters)), key=_order)


def _passes(row: Row, filters: Filters) -> bool:
    if filters.states and row.state not in {each.shown for each in filters.states}:
        return False
    longer_than_ms = filters.longer_than_ms
    return longer_than_ms is None or (row.open_ms is not None and row.open_ms > longer_than_ms)


def _order(row: Row) -> tuple[bool, int, str]:
    return row.started_ms is None, row.started_ms or 0, row.transactional_id


def _row(state: ClusterState, name: str) -> Row:
    found, transaction = state.transactions.get(name), state.transactions.open_of(name)
    assert found is not None
    return Row(
        name,
        found.state.shown,
        found.producer_id,
        found.epoch,
        found.timeout_ms,
        found.started_ms if found.is_open else None,
        _open_ms(state, found),
        len(transaction.partitions) if transaction is not None else 0,
        len(transaction.groups) if transaction is not None else 0,
    )


def _open_ms(state: ClusterState, found: TransactionalId) -> int | None:
    return max(state.log_time_ms - found.started_ms, 0) if found.is_open else None


def details_of(state: ClusterState, name: str) -> Details | None:
    """Return the details of a transactional id; None if it is unknown."""
    if state.transactions.get(name) is None:
        return None
    row, transaction = _row(state, name), state.transactions.open_of(name)
    if transaction is None:
        return Details(row)
    partitions = sorted(_partitions(state, transaction), key=lambda e: (e.topic, e.partition))
    staged = sorted(_staged(state, transaction), key=lambda e: (e.group, e.topic, e.partition))
    return Details(row, partitions, sorted(transaction.groups), staged)


def _partitions(state: ClusterState, transaction: OpenTransaction) -> Iterator[OpenPartition]:
    for number, first_offset in transaction.partitions.items():
        partition = state.partitions[number]
        yield OpenPartition(
            state.topics.get(partition.topic_id).name,
            partition.index,
            first_offset if first_offset != NOTHING_WRITTEN else None,
            partition.last_stable_offset,
            partition.next_offset,
        )


def _staged(state: ClusterState, transaction: OpenTransaction) -> Iterator[Staged]:
    for group_id, offsets in transaction.groups.items():
        for (topic_id, partition), each in offsets.items():
            name = state.topics.get(topic_id).name
            yield Staged(group_id, name, partition, each.offset.offset, each.is_overtaken)
