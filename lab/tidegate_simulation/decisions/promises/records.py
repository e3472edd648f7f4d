"""The promises of answers about records.

Offsets have no gap, repeats are recognised, and no batch is refused without a cause.

The judge is called in the order of the log, so it needs no knowledge of rules or folds but Kafka's:
an accepted batch gets the offsets at its partition's end, a repeated one those of the first time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidegate_coordination.events.cluster import LogStartsMoved
from tidegate_coordination.events.entries import Entry
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal

from .moment import Moment, Place
from .stable import StablePromises

_GONE: Final = (Refusal.UNKNOWN_TOPIC, Refusal.ABANDONED)
KEPT_BATCHES: Final = 5
"""The batches kept of a producer in a partition, to recognise repeats, as in Kafka."""


@dataclass(slots=True)
class _Kept:
    """A producer in a partition.  batches: base offsets of its epoch, by first sequence.

    is_open: whether it has an open transaction.
    """

    epoch: int
    expected: int = 0
    last_ms: int = 0
    is_open: bool = False
    batches: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class PartitionPromises:
    """The ends of a partition, and its idempotent producers, by id.

    floor: records below this offset are deleted.  is_holed: runs were skipped once, so the log
    start may be higher.
    """

    floor: int = 0
    next_offset: int = 0
    is_holed: bool = False
    producers: dict[int, _Kept] = field(default_factory=dict[int, _Kept])


class RecordPromises:
    """See the module's head.

    partitions: by topic id and index.  mirrored: the topics whose records are another cluster's.
    stable: knows their transactions.
    """

    def __init__(self, moment: Moment) -> None:
        self.partitions: Final[dict[Place, PartitionPromises]] = {}
        self.mirrored: Final[set[bytes]] = set()
        self.stable: Final = StablePromises(moment)
        self._floors: Final[dict[Place, int]] = {}
        self._moment: Final = moment
        self._complain: Final = moment.complain
        self._blocks: list[tuple[int, int]] = []
        self._old_below = 0
        self._expired_ms = 0

    def is_young(self, producer_id: int) -> bool:
        """Return whether the producer id is so new that its state cannot have expired."""
        return producer_id >= self._old_below

    def reserved(self, end: int) -> None:
        """Record a block of producer ids; end: the first id after it."""
        self._blocks.append((end, self._moment.log_time_ms))

    def grew(self, topic_id: bytes, count: int) -> None:
        """Record that a topic has so many partitions."""
        for index in range(count):
            self.partitions.setdefault((topic_id, index), PartitionPromises())

    def deleted(self, topic_id: bytes) -> None:
        """Record that a topic is gone."""
        for place in [each for each in self.partitions if each[0] == topic_id]:
            del self.partitions[place]
        self.stable.deleted(topic_id)

    def started(self, place: Place, log_start: int, wanted: int) -> None:
        """Judge an answer to DeleteRecords, whose event is judged already."""
        partition = self.partitions.get(place)
        if partition is None or place[0] in self.mirrored:
            self._complain(f"records of {place} are deleted, and it is none of this cluster's")
            return
        # A deletion that changes nothing may come before another one of the same entry.
        floors = (partition.floor, self._floors.get(place, partition.floor))
        is_later = log_start > partition.floor and partition.is_holed
        if wanted > log_start or (log_start not in floors and not is_later):
            self._complain(f"{place} starts at {log_start} instead of {wanted}, {partition}")

    def before(self, entry: Entry) -> None:
        """Judge an entry before its fold."""
        self._forget()
        self._floors.clear()
        for event in entry.events:
            for number, offset in event.moves if isinstance(event, LogStartsMoved) else ():
                found = self._moment.truth.partitions[number]
                self._cut((found.topic_id, found.index), offset)

    def _cut(self, place: Place, offset: int) -> None:
        partition = self.partitions.get(place)
        if partition is None or place[0] in self.mirrored:
            self._complain(f"records of {place} go, and it is none of this cluster's")
        elif not partition.floor < offset <= partition.next_offset:
            self._complain(f"{place} starts at {offset} after {partition}")
        else:
            self._floors[place] = partition.floor
            partition.floor = offset

    def marked(self, place: Place, producer_id: int, *, committed: bool) -> None:
        """Record that the marker of a producer's transaction is the partition's next record."""
        partition = self.partitions.get(place)
        if partition is None:
            return
        self.stable.ended(place, producer_id, partition.next_offset, committed=committed)
        partition.next_offset += 1
        kept = partition.producers.get(producer_id)
        if kept is not None:
            kept.last_ms, kept.is_open = self._moment.log_time_ms, False

    def expired(self, before_ms: int) -> None:
        """Record that producers without a write since this time expire after this entry.

        Later proposals of the same entry are decided with a view that still has these producers.
        """
        self._expired_ms = max(self._expired_ms, before_ms)

    def _forget(self) -> None:
        """Drop expired producers.

        Ids of older blocks may have expired, and look like ids that wrote nothing.
        """
        before_ms, self._expired_ms = self._expired_ms, 0
        if not before_ms:
            return
        while self._blocks and self._blocks[0][1] < before_ms:
            self._old_below = self._blocks.pop(0)[0]
        for partition in self.partitions.values():
            producers = partition.producers.items()
            gone = [
                each
                for each, kept in producers
                if kept.last_ms < before_ms and not kept.is_open  # an open transaction stays
            ]
            for producer_id in gone:
                del partition.producers[producer_id]

    def restored(self) -> None:
        """Record that the batches of ids from before the restore may be lost."""
        self._blocks.clear()
        self._old_below = self._moment.truth.producer_ids.next_id

    def judged(self, batch: BatchFacts, outcome: BatchOutcome) -> None:
        """Judge the answer to a batch."""
        partition = self.partitions.get((batch.topic_id, batch.partition))
        if outcome.refusal in _GONE:
            if partition is not None and outcome.refusal is Refusal.UNKNOWN_TOPIC:
                self._complain(f"a partition that exists is unknown: {batch}")
        elif partition is None:
            self._complain(f"{batch} is {outcome}, and its partition does not exist")
        elif (batch.topic_id in self.mirrored) != (outcome.refusal is Refusal.MIRRORED):
            self._complain(f"{batch} is {outcome}, on the wrong side of a link")
        elif outcome.refusal is Refusal.MIRRORED:
            pass
        elif batch.producer_id < 0:
            self._plain(partition, batch, outcome)
        elif outcome.refusal is None:
            self._accepted(partition, batch, outcome.base_offset)
        else:
            self._refused(partition, batch, outcome.refusal)

    def _plain(
        self, partition: PartitionPromises, batch: BatchFacts, outcome: BatchOutcome
    ) -> None:
        if outcome.refusal is not None:
            self._complain(f"a batch without a producer is refused: {outcome.refusal}, {batch}")
        else:
            self._appended(partition, batch, outcome.base_offset)

    def _appended(self, partition: PartitionPromises, batch: BatchFacts, base_offset: int) -> None:
        if base_offset != partition.next_offset:
            self._complain(f"{batch} is at {base_offset} instead of {partition.next_offset}")
        partition.next_offset = base_offset + batch.record_count

    def _accepted(self, partition: PartitionPromises, batch: BatchFacts, base_offset: int) -> None:
        kept = partition.producers.get(batch.producer_id)
        if kept is not None and batch.producer_epoch < kept.epoch:
            self._complain(f"a fenced epoch has written: {batch}")
            return
        if kept is not None and batch.producer_epoch == kept.epoch:
            known = kept.batches.get(batch.first_sequence)
            if known is not None:
                if base_offset != known:
                    self._complain(f"a repeat of {batch} is at {base_offset}, not at {known}")
                return
            if batch.first_sequence != kept.expected:
                self._complain(f"{batch} where sequence {kept.expected} was next")
        elif batch.first_sequence and (kept is not None or self.is_young(batch.producer_id)):
            self._complain(f"{batch} begins an epoch, and not with sequence 0")
        self._appended(partition, batch, base_offset)
        if kept is None or batch.producer_epoch > kept.epoch:
            kept = partition.producers[batch.producer_id] = _Kept(batch.producer_epoch)
        kept.batches[batch.first_sequence] = base_offset
        kept.expected = batch.last_sequence + 1
        kept.last_ms, kept.is_open = self._moment.log_time_ms, bool(batch.flags)
        if kept.is_open:
            place = batch.topic_id, batch.partition
            self.stable.wrote(place, batch.producer_id, base_offset)

    def _refused(self, partition: PartitionPromises, batch: BatchFacts, refusal: Refusal) -> None:
        """Complain if the next batch, or a repeat of the last ones, is refused for its sequence."""
        if refusal not in (Refusal.OUT_OF_ORDER_SEQUENCE, Refusal.DUPLICATE_SEQUENCE):
            return
        kept = partition.producers.get(batch.producer_id)
        if kept is None or batch.producer_epoch > kept.epoch:
            is_known = batch.first_sequence == 0
        else:
            last = [*kept.batches][-KEPT_BATCHES:]
            same = batch.producer_epoch == kept.epoch
            is_known = same and batch.first_sequence in (kept.expected, *last)
        if is_known:
            self._complain(f"{batch} comes next or is a repeat, and is refused: {refusal}")
