"""Committing what the restored state does not know: rules and order.  Pure.

An object of a former incarnation is committed in place, under its own WAL id, by the rules that any
commit goes through; so one that was salvaged is known, and is not salvaged twice.

Order: within a gateway's life objects are committed in the order of their counters, as they were.
Between lives the store's clock decides, except where a producer's sequences say more: an object
waits while a batch of it continues one that another life's later object still holds.  What nobody
holds any more (deleted by retention, or damaged) is bridged: the producer goes on after the gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tidegate_protocol.batches import last_sequence, walk
from tidegate_storage.wal_reader import WalContents

from ..events import Event, FormerLife, FormerLivesFound, SalvageEnded
from ..rules.proposal import GATEWAYS, HEADS, OBJECTS, PRODUCER_IDS, TOPICS, Decided, View
from ..rules.wal import NO_PRODUCER_ID, BatchFacts, BatchOutcome, CommitWal, Refusal
from ..state.cluster import ClusterState
from ..state.objects import WalStatus
from ..state.partitions import Partition
from ..state.producers import MAX_SEQUENCE, KeptBatch, ProducerState

SEVERAL: Final = -1
"""In place of an incarnation: more than one life has the batch."""
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
        )
        for entry in contents.slices
        for position, header in walk(contents.bytes_of(entry))
    ]


def partition_of(state: ClusterState, batch: BatchFacts) -> Partition | None:
    """Return the partition a batch is for; None: the restored state does not know it."""
    topic = state.topics.by_id.get(batch.topic_id)
    if topic is None or not 0 <= batch.partition < len(topic.partition_numbers):
        return None
    return state.partitions[topic.partition_numbers[batch.partition]]


class Link(NamedTuple):
    """The end of one idempotent batch: what the next batch of its producer continues."""

    topic_id: bytes
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int


class SequenceIndex:
    """Which life holds the batch that another one continues; about 200 bytes a batch."""

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}
        self.next_producer_id = 0

    def add(self, incarnation: int, batches: Iterable[BatchFacts]) -> None:
        """Take note of the batches of one object."""
        for batch in batches:
            if batch.producer_id == NO_PRODUCER_ID:
                continue
            self.next_producer_id = max(self.next_producer_id, batch.producer_id + 1)
            link = hash(Link(*batch[:2], *batch[7:9], batch.last_sequence))
            if self._holders.setdefault(link, incarnation) != incarnation:
                self._holders[link] = SEVERAL

    def holder_of_previous(self, batch: BatchFacts) -> int | None:
        """Return the incarnation with the batch that this one continues; SEVERAL, or None."""
        previous = (batch.first_sequence - 1) & MAX_SEQUENCE
        return self._holders.get(hash(Link(*batch[:2], *batch[7:9], previous)))


@dataclass(slots=True)
class Gaps:
    """What keeps an object from being committed as it is.

    waits: a batch continues one that another life holds.  bridges: batches that continue what
    nobody holds any more, as the state each producer must have for them.
    """

    waits: bool = False
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
        if partition is None or batch.producer_id == NO_PRODUCER_ID:
            continue
        key = (partition.number, batch.producer_id)
        expected = ahead.get(key) or _expected(partition, batch)
        if _is_gap(batch, expected):
            holder = index.holder_of_previous(batch)
            if holder is None:
                gaps.bridges.setdefault(key, _bridge(batch, state.log_time_ms))
            elif holder != incarnation:
                gaps.waits = True
        ahead[key] = (batch.producer_epoch, _next_sequence(batch))
    return gaps


def _expected(partition: Partition, batch: BatchFacts) -> tuple[int, int]:
    """Return the producer's epoch and next sequence."""
    known = partition.producers.get(batch.producer_id)
    return (known.epoch, known.expected_sequence()) if known is not None else (-1, 0)


def _next_sequence(batch: BatchFacts) -> int:
    return (batch.last_sequence + 1) & MAX_SEQUENCE


def _is_gap(batch: BatchFacts, expected: tuple[int, int]) -> bool:
    """Tell whether something is missing in front of the batch; repeats and old epochs are none."""
    epoch, sequence = expected
    if batch.producer_epoch != epoch:
        return batch.producer_epoch > epoch and batch.first_sequence != 0
    # Half of all sequences lie ahead: they wrap.
    distance = (batch.first_sequence - sequence) & MAX_SEQUENCE
    return 0 < distance < MAX_SEQUENCE // 2


def _bridge(batch: BatchFacts, log_time_ms: int) -> ProducerState:
    previous = (batch.first_sequence - 1) & MAX_SEQUENCE
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
    # HEADS: what a bridge changes in the overlay must not be seen by another one's proposal.
    reads: frozenset[str] = field(default=frozenset({TOPICS, GATEWAYS, HEADS}), init=False)

    def decide(self, view: View) -> Decided[list[BatchOutcome]]:
        """See the module's head."""
        bridged = replace(view, producers={**view.producers, **self.bridges})
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
    """Let objects of lives that the state does not know be committed.  Answer: None."""

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
        return Decided((SalvageEnded(self.restore_id, self.first_producer_id),), None)
