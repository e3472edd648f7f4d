"""Judges the batches of one WAL object, in their order.

Idempotence is Kafka's (KIP-98, KIP-360): epoch, sequence and the last five batches per producer and
partition.  A gap is out of order at once: a WAL id commits once, so nothing waits in the log.

A client can make producer ids up, as in Kafka, and each would leave a state for a day.  So a
partition with many producers keeps no state of a further id that the cluster has not given out: its
batches are written, but their repeats are not recognised.  No client library writes with such an
id, except after a switch from another cluster.  That cluster's producers get states while they are
mirrored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate_storage.objects.runs import headed_crc, run_check

from ...events.cluster import (
    RUN_FINAL,
    RUN_HEADED,
    RUN_LOG_APPEND_TIME,
    RUN_WALKED,
    Event,
    ProducerBatch,
    Run,
)
from ...events.metadata_versions import DUPLICATES_TOLD, SWITCHES, WALKED_TIMES, WIDE_NUMBERS
from ...state.columns import MAX_INT64
from ...state.records.objects import WalName
from ...state.records.partitions import Partition
from ...state.records.producers import KeptBatch, ProducerState, with_batch
from ..proposal import View
from .batch_outcomes import REFUSED, BatchFacts, BatchOutcome, Refusal
from .mirrored_batches import TRANSACTIONAL, MirroredBatch, MirrorJudge, last_batches
from .transactional_batches import MAY_ADD, Misfit, TransactionJudge

NO_PRODUCER_ID = -1
ROOM_FOR_MADE_UP_IDS: Final = 1_000
"""Producers of a partition up to which one with a made-up id is noted."""
_MISFITS = {
    Misfit.UNKNOWN_ID: REFUSED[Refusal.UNKNOWN_TRANSACTIONAL_ID],
    Misfit.STALE_EPOCH: REFUSED[Refusal.STALE_PRODUCER_EPOCH],
    Misfit.NOT_ADDED: REFUSED[Refusal.NOT_IN_TRANSACTION],
    Misfit.LATE: REFUSED[Refusal.LATE_IN_TRANSACTION],
    Misfit.NOT_TRANSACTIONAL: REFUSED[Refusal.OPEN_TRANSACTION],
    Misfit.TOO_LARGE: REFUSED[Refusal.TRANSACTION_TOO_LARGE],
}


@dataclass(slots=True)
class _OpenRun:
    """A run that still grows."""

    partition: Partition
    position: int
    end: int
    base_offset: int
    record_count: int
    max_timestamp: int
    crcs: list[int]
    flags: int


class WalJudge:
    """Judges the batches of one object in order."""

    def __init__(
        self,
        view: View,
        append_time_topics: frozenset[bytes],
        mirrored: Mapping[int, MirroredBatch],
        *,
        is_walked: bool,
    ) -> None:
        self._view = view
        self._append_time_topics = append_time_topics
        # A stamp in the past would let retention take the record early; one in the future keeps it.
        self._append_time_ms = max(view.clock_ms, view.log_time_ms)
        self._next_offsets: dict[int, int] = {}
        self._producers: dict[tuple[int, int], ProducerState] = {}
        self._new_producers: dict[int, int] = {}
        self._runs: list[_OpenRun] = []
        # The partition whose batches are being judged; _partition is None if no client may write to
        # it. _mirrored is None unless a mirror may write to it.
        self._topic_id = b""
        self._index = -1
        self._partition: Partition | None = None
        self._mirrored: Partition | None = None
        self._stamp_ms = -1
        self._next_offset = 0
        self._run: _OpenRun | None = None
        self.producer_batches: list[ProducerBatch] = []
        self._transactions: TransactionJudge | None = None
        self._mirror: Final = MirrorJudge(mirrored) if mirrored else None
        level = view.state.metadata_version
        self._walked: Final = RUN_WALKED if is_walked and level >= WALKED_TIMES else 0
        is_headed = level >= SWITCHES
        self._final: Final = RUN_FINAL | (RUN_HEADED if is_headed else 0) | self._walked

    def judge(self, batch: BatchFacts) -> BatchOutcome:
        """Return a batch's outcome.  It runs once for every produced batch, so it must be fast."""
        topic_id, index, position, length, record_count, timestamp, crc, producer_id = batch[:8]
        if index != self._index or topic_id != self._topic_id:
            self._turn_to(topic_id, index)
        partition = self._partition
        if partition is None:
            return self._judge_apart(batch)
        if producer_id > NO_PRODUCER_ID:  # any negative id counts as none, as in Kafka
            settled = self._judge_producer(batch, partition)
            if settled is not None:
                return settled
        base_offset = self._next_offset
        following = base_offset + record_count
        if following > MAX_INT64:
            return self._out_of_offsets()
        if producer_id > NO_PRODUCER_ID:
            self._accept_producer(batch, (partition.number, producer_id), self._stamp_ms)
        self._next_offset = following
        stamp_ms = self._stamp_ms
        if stamp_ms >= 0:
            timestamp = stamp_ms
        run = self._run
        if run is None or run.end != position:
            flags = self._walked | (RUN_LOG_APPEND_TIME if stamp_ms >= 0 else 0)
            run = self._run = _OpenRun(
                partition, position, position, base_offset, 0, timestamp, [], flags
            )
            self._runs.append(run)
        run.end = position + length
        run.record_count += record_count
        if timestamp > run.max_timestamp:
            run.max_timestamp = timestamp
        run.crcs.append(crc)
        return BatchOutcome(None, base_offset, stamp_ms, partition.log_start)

    def judge_mixed(self, batch: BatchFacts) -> BatchOutcome:
        """Judge a batch of an object that has mirrored ones.

        Its topic may have been switched since a mirror stored the batch.
        """
        if self._found_mirrored(batch) is not None:
            topic = self._view.state.topics.by_id.get(batch.topic_id)
            if topic is None or not topic.link:
                return REFUSED[Refusal.MISPLACED]
        return self.judge(batch)

    def _judge_apart(self, batch: BatchFacts) -> BatchOutcome:
        """Judge a batch of a partition that no client may write to."""
        partition = self._mirrored
        mirrored = self._found_mirrored(batch)
        if partition is None:
            return REFUSED[Refusal.UNKNOWN_TOPIC if mirrored is None else Refusal.MISPLACED]
        if mirrored is None:
            return REFUSED[Refusal.MIRRORED]
        is_older = 0 <= mirrored.leader_epoch < partition.leader_epoch
        fits = mirrored.follows(self._next_offset) and mirrored.next_offset <= MAX_INT64
        if is_older or not fits:
            return REFUSED[Refusal.MISPLACED]
        self._accept_mirrored(batch, partition, mirrored)
        return BatchOutcome(None, mirrored.base_offset, -1, partition.log_start)

    def _found_mirrored(self, batch: BatchFacts) -> MirroredBatch | None:
        return self._mirror.find(batch.position) if self._mirror is not None else None

    def _accept_mirrored(
        self, batch: BatchFacts, partition: Partition, mirrored: MirroredBatch
    ) -> None:
        start, position = self._next_offset, batch.position
        run = self._run
        if run is None or run.end != position:
            run = self._run = _OpenRun(
                partition, position, position, start, 0, batch.max_timestamp, [], self._final
            )
            self._runs.append(run)
        run.end = position + batch.length
        run.record_count += mirrored.next_offset - start
        run.max_timestamp = max(run.max_timestamp, batch.max_timestamp)
        is_headed = bool(run.flags & RUN_HEADED)
        head = mirrored.base_offset, mirrored.leader_epoch
        run.crcs.append(headed_crc(batch.crc, *head) if is_headed else batch.crc)
        producer = batch.producer_id, batch.producer_epoch
        has_sequence = batch.producer_id > NO_PRODUCER_ID and batch.first_sequence >= 0
        if has_sequence and mirrored.kind <= TRANSACTIONAL:
            key = partition.number, producer[0]
            self._note_producer(batch, key, self._producer(key), mirrored.base_offset, -1)
        assert self._mirror is not None, "it has found the batch"
        self._mirror.accept(partition.number, partition.leader_epoch, mirrored, producer)
        self._next_offset = mirrored.next_offset

    def _turn_to(self, topic_id: bytes, index: int) -> None:
        """Turn to the next partition; an object holds the batches of a partition together."""
        if self._index >= 0:
            self._leave_partition()
        self._topic_id = topic_id
        self._index = index
        self._run = None
        self._partition = self._mirrored = None
        topic = self._view.state.topics.by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partition_numbers):
            return
        number = topic.partition_numbers[index]
        partition = self._view.state.partitions[number]
        if topic.link:
            self._mirrored = partition
        else:
            self._partition = partition
        self._stamp_ms = self._append_time_ms if topic_id in self._append_time_topics else -1
        overlaid = self._next_offsets.get(number, self._view.next_offsets.get(number))
        self._next_offset = partition.next_offset if overlaid is None else overlaid

    def _leave_partition(self) -> None:
        left = self._partition or self._mirrored
        if left is not None:
            self._next_offsets[left.number] = self._next_offset

    def _out_of_offsets(self) -> BatchOutcome:
        """Refuse a batch whose last record would have no offset; a smaller batch may still fit.

        A batch claims its number of records, and no gateway counts them, so 2^32 small requests can
        use up a partition's offsets.

        Below the level, the author's release may not know this answer.
        """
        is_told = self._view.state.metadata_version >= WIDE_NUMBERS
        return REFUSED[Refusal.OFFSETS_RUN_OUT if is_told else Refusal.ABANDONED]

    def _judge_producer(self, batch: BatchFacts, partition: Partition) -> BatchOutcome | None:
        overlay = self._view.overlay
        if batch.flags or partition.open or (overlay is not None and overlay.is_used):
            return self._judge_transaction(batch, partition)
        return self._judge_sequence(batch, partition)

    def _transaction_judge(self) -> TransactionJudge:
        if self._transactions is None:
            self._transactions = TransactionJudge(self._view)
        return self._transactions

    def _judge_transaction(self, batch: BatchFacts, partition: Partition) -> BatchOutcome | None:
        """Judge a batch of a producer that may have transactions, in Kafka's order of checks.

        A batch that is refused for its sequence has still added its partition.
        """
        flags, producer_id, number = batch.flags, batch.producer_id, partition.number
        if flags:
            transactions = self._transactions or self._transaction_judge()
            misfit = transactions.fit(flags, producer_id, batch.producer_epoch, number)
            return self._judge_sequence(batch, partition) if misfit is None else _MISFITS[misfit]
        settled = self._judge_sequence(batch, partition)
        if settled is None and self._transaction_judge().is_inside(producer_id, number):
            return _MISFITS[Misfit.NOT_TRANSACTIONAL]
        return settled

    def _judge_sequence(self, batch: BatchFacts, partition: Partition) -> BatchOutcome | None:
        key = (partition.number, batch.producer_id)
        known = self._producer(key)
        if known is None:
            begins = batch.flags & MAY_ADD or self._is_young(batch.producer_id)
            if batch.first_sequence and begins:
                return REFUSED[Refusal.OUT_OF_ORDER_SEQUENCE]
        elif batch.producer_epoch < known.epoch:
            return REFUSED[Refusal.STALE_PRODUCER_EPOCH]
        elif batch.producer_epoch > known.epoch:
            if batch.first_sequence:
                return REFUSED[Refusal.OUT_OF_ORDER_SEQUENCE]
        else:
            repeated = known.duplicate_of(batch.first_sequence, batch.last_sequence)
            if repeated is not None:
                return BatchOutcome(
                    None, repeated.base_offset, repeated.append_time_ms, partition.log_start
                )
            if batch.first_sequence != known.expected_sequence():
                return REFUSED[self._not_next(batch, known)]
        return None

    def _not_next(self, batch: BatchFacts, known: ProducerState) -> Refusal:
        """Distinguish a repeat that is older than all kept batches from a gap.

        A Java producer whose answers are lost continues at another gateway, and repeats unanswered
        batches up to request.timeout.ms later.  Such a producer treats DUPLICATE_SEQUENCE as
        success.  At OUT_OF_ORDER_SEQUENCE it retries until delivery.timeout.ms, which blocks the
        partition, and then reports a loss although the batch was written.

        Below the level, the author's release may not be able to read this answer.
        """
        if self._view.state.metadata_version < DUPLICATES_TOLD:
            return Refusal.OUT_OF_ORDER_SEQUENCE
        is_old = known.has_forgotten(batch.first_sequence, batch.last_sequence)
        if is_old and self._is_young(batch.producer_id):
            return Refusal.DUPLICATE_SEQUENCE
        return Refusal.OUT_OF_ORDER_SEQUENCE

    def _is_young(self, producer_id: int) -> bool:
        """Return whether no state of this id can have expired, so that it starts at zero."""
        return self._view.state.producer_ids.is_young(producer_id)

    def _accept_producer(
        self, batch: BatchFacts, key: tuple[int, int], append_time_ms: int
    ) -> None:
        base_offset = self._next_offset
        if batch.flags:
            self._transaction_judge().accept(batch.producer_id, key[0], base_offset)
        known = self._producer(key)
        if known is not None or self._has_room(key):
            self._note_producer(batch, key, known, base_offset, append_time_ms)

    def _has_room(self, key: tuple[int, int]) -> bool:
        """Return whether a new producer of a partition gets a state.

        The producer gets no state if its id is made up and the partition has many producers.  See
        the module's head.
        """
        number, producer_id = key
        state = self._view.state
        new = self._new_producers.get(number, self._view.new_producers.get(number, 0))
        is_full = len(state.partitions[number].producers) + new >= ROOM_FOR_MADE_UP_IDS
        if is_full and not state.producer_ids.was_given(producer_id):
            return False
        self._new_producers[number] = new + 1
        return True

    def _note_producer(
        self,
        batch: BatchFacts,
        key: tuple[int, int],
        known: ProducerState | None,
        base_offset: int,
        append_time_ms: int,
    ) -> None:
        kept = KeptBatch(batch.first_sequence, batch.last_sequence, base_offset, append_time_ms)
        self._producers[key] = with_batch(known, batch.producer_epoch, kept, self._view.log_time_ms)
        self.producer_batches.append(
            ProducerBatch(
                key[0],
                batch.producer_id,
                batch.producer_epoch,
                batch.first_sequence,
                batch.last_sequence,
                base_offset,
            )
        )

    def runs(self) -> tuple[Run, ...]:
        found = [
            Run(
                run.partition.number,
                run.position,
                run.end - run.position,
                run.base_offset,
                run.record_count,
                run.max_timestamp,
                run_check(run.partition.topic_id, run.partition.index, run.crcs),
                run.flags,
            )
            for run in self._runs
        ]
        return tuple(found)

    def producers(self) -> list[ProducerBatch]:
        return last_batches(self.producer_batches) if self._mirror else self.producer_batches

    def later_events(self) -> Iterator[Event]:
        """Yield the events that follow WalCommitted in the entry."""
        if self._transactions is not None:
            yield from self._transactions.events()
        if self._mirror is not None:
            yield from self._mirror.events()

    def leave_in_overlay(self, name: WalName) -> None:
        self._leave_partition()
        self._view.next_offsets.update(self._next_offsets)
        self._view.producers.update(self._producers)
        self._view.new_producers.update(self._new_producers)
        self._view.wal_ids.add(name)

    def _producer(self, key: tuple[int, int]) -> ProducerState | None:
        return (
            self._producers.get(key)
            or self._view.producers.get(key)
            or self._view.state.partitions[key[0]].producers.get(key[1])
        )
