"""The rules and the order of committing objects that the restored state does not know.  Pure.

An object of a former incarnation is committed in place, under its own WAL id, by the rules of any
commit; so a salvaged object is known, and is not salvaged twice.

Order: the objects of an incarnation are committed in the order of their counters, as they were.
Between incarnations the store's clock decides, unless a producer's sequences contradict it: an
object waits while one of its batches continues a batch in a later object of another incarnation.  A
gap of batches that no object holds any more (deleted by retention, or damaged) is bridged: the
producer continues after the gap.

A mover stores batches of inlined objects a second time (decision 49).  If the restored log has the
commit of the inlined object, its batch is there already, and is not committed again.  Otherwise the
inlined object is stored under its own name, so that it takes its place in the order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, NamedTuple

from tidegate_protocol.batches import last_sequence, walk
from tidegate_storage.objects.wal import OpenWal
from tidegate_storage.objects.wal_format import HEADER, Source, WalIdentity
from tidegate_storage.objects.wal_reader import WalContents, read_wal

from ..events.cluster import Event
from ..events.restores import FormerLife, FormerLivesFound, SalvageEnded
from ..rules.proposal import GATEWAYS, HEADS, OBJECTS, PRODUCER_IDS, TOPICS, Decided, View
from ..rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal
from ..rules.records.transactional_batches import TRANSACTIONAL
from ..rules.records.wal import CommitWal
from ..rules.records.wal_judge import NO_PRODUCER_ID
from ..state.cluster import ClusterState
from ..state.records.objects import WalName, WalStatus
from ..state.records.partitions import Partition
from ..state.records.producers import MAX_SEQUENCE, KeptBatch, ProducerState

PRODUCER_ID_GAP: Final = 1 << 30
"""Ids that may have been given out unseen, in each timeline since the backup."""
_REFUSED: Final = BatchOutcome(Refusal.ABANDONED, -1, -1, -1)
_COMMITTED: Final = BatchOutcome(None, -1, -1, -1)


def batch_facts(contents: WalContents) -> list[BatchFacts]:
    """Return the facts of all batches, in object order.

    Raises:
      InvalidBatch: a slice is not made of whole batches.
    """
    return [
        BatchFacts(
            entry.topic_id,
            entry.partition,
            entry.start_byte + position,
            header.size_bytes,
            header.record_count,
            header.max_timestamp,
            header.crc,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            last_sequence(header.base_sequence, header.record_count),
            TRANSACTIONAL if header.is_transactional else 0,
        )
        for entry in contents.slices
        for position, header in walk(contents.bytes_of(entry))
    ]


class Unpacked(NamedTuple):
    """An inlined object of a live or later incarnation, as a mover's object holds its batches."""

    name: WalName
    body: bytes
    batches: list[BatchFacts]


def new_batches(state: ClusterState, contents: WalContents) -> list[BatchFacts]:
    """Return the facts of batches to commit as those of the object itself.

    Batches with a source of a known incarnation are not among them: the log has their commit, or
    unpacked() returns them.

    Raises:
      InvalidBatch: a slice is not made of whole batches.
    """
    return [
        batch
        for source, batch in _by_source(contents)
        if source is None or source.incarnation not in state.gateways.homes
    ]


def unpacked(state: ClusterState, contents: WalContents) -> list[Unpacked]:
    """Return the inlined objects whose batches a mover's object holds, and whose commit is lost.

    Raises:
      InvalidBatch: as new_batches().
    """
    found: dict[WalName, OpenWal] = {}
    for source, batch in _by_source(contents):
        if source is not None and source.incarnation in state.timelines.salvageable:
            data = contents.body[batch.position : batch.position + batch.length]
            wal = found.setdefault(WalName(source.incarnation, source.counter), OpenWal())
            wal.append(*batch[:2], data, batch.record_count, batch.max_timestamp, None)
    return [
        _sealed(state, name, wal)
        for name, wal in found.items()
        if state.objects.wal_status(name) is WalStatus.UNKNOWN
    ]


def _sealed(state: ClusterState, name: WalName, wal: OpenWal) -> Unpacked:
    node_id, _ = state.gateways.homes[name.incarnation]
    body = bytes(wal.seal(WalIdentity(node_id, *name)).body)
    return Unpacked(name, body, batch_facts(read_wal(body)))


def _by_source(contents: WalContents) -> list[tuple[Source | None, BatchFacts]]:
    """Return the facts of all batches, each with the inlined object that held it before."""
    batches, sources = batch_facts(contents), contents.sources
    if not sources:
        return [(None, each) for each in batches]
    ends = list(accumulate((each.length for each in sources), initial=HEADER.size))[1:]
    return [(sources[bisect_right(ends, each.position)], each) for each in batches]


def partition_of(state: ClusterState, batch: BatchFacts) -> Partition | None:
    """Return the partition a batch is for; None: the restored state does not know it, or a link
    mirrors it, and brings its batches again.
    """
    topic = state.topics.by_id.get(batch.topic_id)
    if topic is None or topic.link or not 0 <= batch.partition < len(topic.partition_numbers):
        return None
    return state.partitions[topic.partition_numbers[batch.partition]]


class Link(NamedTuple):
    """The end of one idempotent batch, which the next batch of its producer continues."""

    topic_id: bytes
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int


class SequenceIndex:
    """Finds the incarnations that still hold the batch before a given one; takes 200 bytes a batch.

    was_given: returns whether a producer id can have been assigned; next_producer_id is above all
    such ids found.  Clients made up all other ids.
    """

    def __init__(self, was_given: Callable[[int], bool]) -> None:
        self._was_given = was_given
        self._holders: dict[int, tuple[int, ...]] = {}
        self.next_producer_id = 0

    def add(self, incarnation: int, batches: Iterable[BatchFacts]) -> None:
        """Note the batches of one object."""
        alone = (incarnation,)
        for batch in batches:
            if batch.producer_id <= NO_PRODUCER_ID:
                continue
            if self._was_given(batch.producer_id):
                self.next_producer_id = max(self.next_producer_id, batch.producer_id + 1)
            if batch.flags & TRANSACTIONAL:
                continue  # the restored log fences all transactions: see TransactionFolds
            link = _link(batch, batch.last_sequence)
            others = self._holders.get(link)
            self._holders[link] = alone if others is None else (*others, incarnation)

    def remove(self, incarnation: int, batches: Iterable[BatchFacts]) -> None:
        """Remove the batches of an object that was proposed: the state knows the accepted ones."""
        for batch in batches:
            link = _link(batch, batch.last_sequence)
            holders = list(self._holders.pop(link, ()))
            if incarnation in holders:
                holders.remove(incarnation)
            if holders:
                self._holders[link] = tuple(holders)

    def is_last_copy(self, batch: BatchFacts) -> bool:
        """Return whether at most one copy of the batch is still to be committed."""
        return len(self._holders.get(_link(batch, batch.last_sequence), ())) < 2

    def holders_of_previous(self, batch: BatchFacts) -> tuple[int, ...]:
        """Return the incarnations with the batch that this one continues."""
        previous = (batch.first_sequence - 1) & MAX_SEQUENCE
        return self._holders.get(_link(batch, previous), ())


def _link(batch: BatchFacts, last_sequence: int) -> int:
    return hash(Link(*batch[:2], *batch[7:9], last_sequence))


@dataclass(slots=True)
class Gaps:
    """The obstacles to committing an object as it is.

    waits: a batch continues one that another incarnation holds.  losses: the number of batches that
    would be refused now, and of which no later object holds a copy.  bridges: the producer states
    to set before the object is committed.  Such a state lets a producer continue after batches that
    no object holds any more.  If an unknown producer's first batch continues one that is still to
    come, the state expects the first sequence, so that this batch is refused.
    """

    waits: bool = False
    losses: int = 0
    bridges: dict[tuple[int, int], ProducerState] = field(
        default_factory=dict[tuple[int, int], ProducerState]
    )


def gaps_of(
    state: ClusterState, incarnation: int, batches: Sequence[BatchFacts], index: SequenceIndex
) -> Gaps:
    """Compare an object's idempotent batches with the state."""
    gaps = Gaps()
    ahead: dict[tuple[int, int], tuple[int, int]] = {}
    for batch in batches:
        partition = partition_of(state, batch)
        if partition is None or batch.producer_id <= NO_PRODUCER_ID or batch.flags:
            continue
        key = (partition.number, batch.producer_id)
        expected = ahead.get(key) or _expected(partition, batch)
        is_first = key not in ahead
        if not _is_gap(batch, expected):
            if _is_next(batch, expected):
                ahead[key] = (batch.producer_epoch, _next_sequence(batch))
            continue
        holders = index.holders_of_previous(batch)
        if any(each != incarnation for each in holders):
            gaps.waits = True
            gaps.losses += index.is_last_copy(batch)
        # No remaining object has the batch before this one: let the producer continue here. But if
        # this object has earlier batches of the producer, the gap was already there when it was
        # written, and the batch is refused.
        if is_first and not holders:
            gaps.bridges[key] = _before(batch, batch.first_sequence, state.log_time_ms)
            expected = (batch.producer_epoch, _next_sequence(batch))
        elif is_first and batch.producer_id not in partition.producers:
            # The rules accept any first batch of an unknown producer. This batch came too early:
            # refuse it.
            gaps.bridges[key] = _before(batch, 0, state.log_time_ms)
        ahead[key] = expected
    return gaps


def _expected(partition: Partition, batch: BatchFacts) -> tuple[int, int]:
    """Return the producer's epoch and next sequence."""
    known = partition.producers.get(batch.producer_id)
    return (known.epoch, known.expected_sequence()) if known is not None else (-1, 0)


def _next_sequence(batch: BatchFacts) -> int:
    return (batch.last_sequence + 1) & MAX_SEQUENCE


def _is_next(batch: BatchFacts, expected: tuple[int, int]) -> bool:
    """Return whether the rules will accept a batch that has no gap before it."""
    here = (batch.producer_epoch, batch.first_sequence)
    return batch.producer_epoch > expected[0] or here == expected


def _is_gap(batch: BatchFacts, expected: tuple[int, int]) -> bool:
    """Return whether batches are missing before this one; repeats and old epochs are no gaps."""
    epoch, sequence = expected
    if batch.producer_epoch != epoch:
        return batch.producer_epoch > epoch and batch.first_sequence != 0
    # Sequences wrap, so the half of them that follows `sequence` counts as ahead.
    distance = (batch.first_sequence - sequence) & MAX_SEQUENCE
    return 0 < distance < MAX_SEQUENCE // 2


def _before(batch: BatchFacts, sequence: int, log_time_ms: int) -> ProducerState:
    """Return the producer state after which the given sequence is the next one."""
    previous = (sequence - 1) & MAX_SEQUENCE
    return ProducerState(
        batch.producer_epoch, (KeptBatch(previous, previous, -1, -1),), log_time_ms
    )


@dataclass(frozen=True, slots=True, eq=False)
class SalvageWal(CommitWal):
    """Commit an object of a former incarnation.  Answer: as for CommitWal.

    bridges: see Gaps.
    """

    bridges: dict[tuple[int, int], ProducerState] = field(
        default_factory=dict[tuple[int, int], ProducerState]
    )
    # HEADS: no other proposal may see the changes of a bridge in the overlay.
    reads: frozenset[str] = field(default=frozenset({TOPICS, GATEWAYS, HEADS}), init=False)

    def decide(self, view: View) -> Decided[list[BatchOutcome]]:
        """See the module's head."""
        producers = {**view.producers, **self.bridges}
        bridged = replace(view, producers=producers, overlay=view.transactions)
        return CommitWal.decide(self, bridged)

    def _refused_as_a_whole(self, view: View) -> BatchOutcome | None:
        if self.name.incarnation not in view.state.timelines.salvageable:
            return _REFUSED
        status = view.state.objects.wal_status(self.name)
        if status is WalStatus.ABANDONED:
            return _REFUSED
        return _COMMITTED if status is WalStatus.COMMITTED else None


@dataclass(frozen=True, slots=True)
class AddFormerLives:
    """Add former incarnations, so that their objects can be committed.  Answer: None."""

    restore_id: str
    lives: tuple[FormerLife, ...]
    reads: frozenset[str] = field(default=frozenset({GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=frozenset({GATEWAYS}), init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        known = view.state.gateways.homes
        lives = tuple(each for each in self.lives if each.incarnation not in known)
        events: tuple[Event, ...] = (FormerLivesFound(self.restore_id, lives),) if lives else ()
        return Decided(events, None)


@dataclass(frozen=True, slots=True)
class EndSalvage:
    """The log is as whole as it gets; gateways may begin.  Answer: None."""

    restore_id: str
    first_producer_id: int
    reads: frozenset[str] = field(
        default=frozenset({GATEWAYS, OBJECTS, PRODUCER_IDS, HEADS}), init=False
    )
    writes: frozenset[str] = field(default=frozenset({GATEWAYS, PRODUCER_IDS}), init=False)

    def decide(self, view: View) -> Decided[None]:
        """See the class."""
        if not view.state.timelines.is_restoring:
            return Decided((), None)
        first = min(self.first_producer_id, _highest_next_id(view.state))
        return Decided((SalvageEnded(self.restore_id, first),), None)


def _highest_next_id(state: ClusterState) -> int:
    """Return the bound of producer ids that can have been assigned; clients made up larger ones."""
    ids = state.producer_ids
    timelines = state.timeline - state.timelines.ended
    return min(ids.next_id + timelines * PRODUCER_ID_GAP, ids.own.stop - 1)
