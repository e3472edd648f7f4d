"""Adds partitions and groups to a transaction before they are written (AddPartitionsToTxn)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ...events.transactions import TransactionGrew
from ...state.transactions.open import NOTHING_WRITTEN
from ...state.transactions.rows import TransactionalId
from ..proposal import NOTHING, TOPICS, Decided, View
from ..transaction_overlay import OverlaidId
from .refusals import MAX_GROUPS, MAX_PARTITIONS, TransactionRefusal, allows_transactions


@dataclass(frozen=True, slots=True)
class GrowTransaction:
    """Add partitions, as (topic id, partition), and groups; begin a transaction if none is open.

    Answer: a refusal, or None.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[tuple[bytes, int], ...] = ()
    groups: tuple[str, ...] = ()
    reads: frozenset[str] = field(default=frozenset({TOPICS}), init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[TransactionRefusal | None]:
        """See the class."""
        found = owned(view, self.transactional_id, self.producer_id, self.epoch)
        if isinstance(found, TransactionRefusal):
            return Decided((), found)
        if any(map(partial(_is_mirrored, view), self.partitions)):
            return Decided((), TransactionRefusal.MIRRORED)
        numbers = [_number(view, topic_id, index) for topic_id, index in self.partitions]
        if None in numbers:
            return Decided((), TransactionRefusal.UNKNOWN_TOPIC)
        known = [each for each in numbers if each is not None and each not in found.partitions]
        groups = [each for each in self.groups if each not in found.groups]
        if not known and not groups and found.row.is_open:
            return Decided((), None)
        return _grow(view, found, list(dict.fromkeys(known)), list(dict.fromkeys(groups)))


def owned(
    view: View, transactional_id: str, producer_id: int, epoch: int
) -> OverlaidId | TransactionRefusal:
    """Return an id if a client with this producer id and epoch may act for it."""
    if not allows_transactions(view):
        return TransactionRefusal.NOT_YET
    found = view.transactions.of_name(transactional_id)
    if found is None:
        return TransactionRefusal.UNKNOWN_ID
    return disowned(found.row, producer_id, epoch) or found


def disowned(
    row: TransactionalId | None, producer_id: int, epoch: int
) -> TransactionRefusal | None:
    """Return why a client with this producer id and epoch may not act for a transactional id."""
    if row is None or row.producer_id != producer_id:
        return TransactionRefusal.UNKNOWN_ID
    return None if row.has_epoch(epoch) else TransactionRefusal.FENCED


def _number(view: View, topic_id: bytes, index: int) -> int | None:
    topic = view.state.topics.by_id.get(topic_id)
    if topic is None or not 0 <= index < len(topic.partition_numbers):
        return None
    return topic.partition_numbers[index]


def _is_mirrored(view: View, partition: tuple[bytes, int]) -> bool:
    topic = view.state.topics.by_id.get(partition[0])
    return topic is not None and bool(topic.link)


def _grow(
    view: View, found: OverlaidId, numbers: Sequence[int], groups: Sequence[str]
) -> Decided[TransactionRefusal | None]:
    if is_too_large(found, len(numbers), len(groups)):
        return Decided((), TransactionRefusal.TOO_LARGE)
    found.begin(view.log_time_ms, view.transactions.position)
    found.partitions.update(dict.fromkeys(numbers, NOTHING_WRITTEN))
    found.groups.update(groups)
    event = TransactionGrew(found.row.producer_id, tuple(numbers), tuple(groups))
    return Decided((event,), None)


def is_too_large(found: OverlaidId, partitions: int, groups: int) -> bool:
    """Return whether a transaction may not have so many more partitions and groups."""
    too_wide = len(found.partitions) + partitions > MAX_PARTITIONS
    return too_wide or len(found.groups) + groups > MAX_GROUPS
