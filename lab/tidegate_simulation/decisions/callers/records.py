"""Writers of records, and callers that delete records.

A writer that gets no answer commits the same batches again in another object, at any decider.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate_coordination.rules.records.batch_outcomes import BatchFacts, BatchOutcome, Refusal
from tidegate_coordination.rules.records.deletions import DeleteRecords, Deletion
from tidegate_coordination.rules.records.transactional_batches import MAY_ADD
from tidegate_coordination.rules.records.transactional_batches import TRANSACTIONAL as IS_PART
from tidegate_coordination.rules.records.wal import AbandonWal, CommitWal

from ..decider import Decider
from ..promises.moment import Place
from .known import Caller, Known
from .writer import Writer

ADDED: Final = (None, Refusal.OUT_OF_ORDER_SEQUENCE, Refusal.DUPLICATE_SEQUENCE)
"""A batch that is refused for its sequence has still added its partition, as in Kafka."""
BATCH_BYTES: Final = 100
_MOST_RECORDS: Final = 5
_LATE_SHARE: Final = 0.05
_FAR: Final = 1_000


def _of_the_epoch_before(batch: BatchFacts, number: int) -> BatchFacts:
    """Return an abandoned batch of the former epoch; each number has its own sequences."""
    ahead = _FAR * number
    return batch._replace(
        producer_epoch=batch.producer_epoch - 1,
        first_sequence=batch.first_sequence + ahead,
        last_sequence=batch.last_sequence + ahead,
    )


class RecordCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.write, 40),
            (self.abandon, 1),
            (self.delete_records, 3),
        )

    def write(self, decider: Decider) -> None:
        """Commit an object with batches of some producers."""
        if not self._known.topics:
            return
        batches: list[BatchFacts] = []
        authors: list[Writer | None] = []
        for _ in range(self._rng.randint(1, 4)):
            place = self._known.place()
            writer = self._rng.choice([None, *self._known.writers])
            if writer is not None and writer.producer_id < 0:
                continue
            batches.append(self._batch(writer, place, BATCH_BYTES * len(batches)))
            authors.append(writer)
        if not batches:
            return
        name = self._known.new_object(decider.incarnation)
        proposal = CommitWal(name, BATCH_BYTES * len(batches), batches, is_walked=True)

        def judged(outcomes: list[BatchOutcome], is_told: bool) -> None:
            for writer, batch, outcome in zip(authors, batches, outcomes, strict=True):
                self._judge(writer, batch, outcome, is_told=is_told)

        self._world.ask(decider, proposal, judged)

    def _batch(self, writer: Writer | None, place: Place, position: int) -> BatchFacts:
        waits = writer.waits.get(place) if writer is not None else None
        if waits is not None:  # the same batch, in another object
            return waits._replace(position=position)
        count = self._rng.randint(1, _MOST_RECORDS)
        first = writer.sequences.get(place, 0) if writer is not None else -1
        if writer is not None and self._rng.random() < 0.03:
            first += self._rng.randint(1, 3)  # a gap, which is refused
        is_late = (
            writer is not None
            and not writer.name
            and writer.epoch > 0
            and self._rng.random() < _LATE_SHARE
        )
        batch = BatchFacts(
            *place,
            position,
            BATCH_BYTES,
            count,
            self._world.now_ms,
            self._rng.getrandbits(32),
            writer.producer_id if writer is not None else -1,
            writer.epoch if writer is not None else -1,
            first,
            first + count - 1 if writer is not None else -1,
            IS_PART | MAY_ADD if writer is not None and writer.name else 0,
        )
        if is_late:
            return _of_the_epoch_before(batch, self._world.operation)
        if writer is not None:
            writer.waits[place] = batch
        return batch

    def _judge(
        self, writer: Writer | None, batch: BatchFacts, outcome: BatchOutcome, *, is_told: bool
    ) -> None:
        world = self._world
        world.records.judged(batch, outcome)
        if writer is None:
            return
        place = (batch.topic_id, batch.partition)
        if writer.name and outcome.refusal in ADDED:
            ids = batch.producer_id, batch.producer_epoch
            world.transactions.grown(writer.name, *ids, [place])
        if not is_told or (writer.producer_id, writer.epoch) != (
            batch.producer_id,
            batch.producer_epoch,
        ):
            return
        if writer.waits.get(place, batch)._replace(position=batch.position) == batch:
            writer.waits.pop(place, None)
        if outcome.refusal is None:
            writer.is_open = bool(writer.name)
            after = batch.last_sequence + 1
            writer.sequences[place] = max(after, writer.sequences.get(place, 0))

    def abandon(self, decider: Decider) -> None:
        """Abandon an object: the last one, which may be committed, or a new one."""
        name = self._known.last_object(decider.incarnation)
        if name is None or self._rng.random() < 0.5:
            name = self._known.new_object(decider.incarnation)
        self._world.ask(decider, AbandonWal(name))

    def delete_records(self, decider: Decider) -> None:
        """Raise the log start of a partition."""
        if not self._known.topics:
            return
        topic_id, index = place = self._known.place()
        name = self._known.topics[topic_id][0]
        partition = self._world.records.partitions.get(place)
        before = self._rng.randint(0, partition.next_offset) if partition is not None else 0
        proposal = DeleteRecords([Deletion(name, index, before)], topic_ids={name: topic_id})

        def judged(answers: list[Any], is_told: bool) -> None:
            if isinstance(answers[0], int):
                self._world.records.started(place, answers[0], before)

        self._world.ask(decider, proposal, judged)
