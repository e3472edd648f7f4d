"""Committing and abandoning WAL objects.

Every batch is judged against the state at the position the commit gets: its topic may be gone, its
producer fenced, its sequence out of order, or it may be a duplicate.  A refused batch leaves dead
bytes in the object and nothing else; it never fails its neighbours.

Idempotence is Kafka's (KIP-98, KIP-360): epoch, sequence and the last five batches per producer and
partition.  A gap is out of order at once: a WAL id commits once, so nothing waits in the log.

A client can make producer ids up, as in Kafka, and each would leave a state for a day.  So a
partition with many producers notes no further one whose id the cluster has not given: its batches
are written, and their repeats are not recognised.  No client library writes with such an id, except
after a switch from another cluster; its producers are noted while they are mirrored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from tidegate_storage.objects.runs import headed_crc, run_check

from ...events.cluster import (
    RUN_FINAL,
    RUN_HEADED,
    RUN_LOG_APPEND_TIME,
    RUN_WALKED,
    ProducerBatch,
    Run,
    WalAbandoned,
    WalCommitted,
)
from ...events.metadata_versions import DUPLICATES_TOLD, SWITCHES, WALKED_TIMES, WIDE_NUMBERS
from ...state.cluster import ClusterState
from ...state.columns import MAX_INT64
from ...state.records.objects import WalName, WalStatus
from ...state.records.partitions import Partition
from ...state.records.producers import KeptBatch, ProducerState, with_batch
from ...state.topics import Topic
from ..proposal import GATEWAYS, HEADS, NOTHING, TOPICS, Decided, View
from .mirrored_batches import TRANSACTIONAL, MirroredBatch, MirrorJudge, last_batches
from .transactional_batches import MAY_ADD, Misfit, TransactionJudge

NO_PRODUCER_ID = -1
ROOM_FOR_MADE_UP_IDS: Final = 1_000
"""Producers of a partition up to which one with a made-up id is noted."""


class BatchFacts(NamedTuple):
    """One batch of a stored WAL object, as its header says.

    position, length: bytes in the object.  crc: the header's.  last_sequence: of the last record.
    flags: see transactional_batches.py; only from metadata.version 4 on.
    """

    topic_id: bytes
    partition: int
    position: int
    length: int
    record_count: int
    max_timestamp: int
    crc: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    flags: int = 0


class Refusal(Enum):
    """Why a batch was not committed."""

    UNKNOWN_TOPIC = "the topic or partition does not exist (any more)"
    STALE_PRODUCER_EPOCH = "a newer epoch of the producer has written"
    OUT_OF_ORDER_SEQUENCE = "the sequence number does not follow the last one"
    DUPLICATE_SEQUENCE = "it was written long ago; where is not known any more"
    ABANDONED = "the object was given up before it was committed"
    CUT_OFF = "the object was given up: the gateway does not reach the object store"
    OFFSETS_RUN_OUT = "the offsets of its records would be above the highest there is"
    UNKNOWN_TRANSACTIONAL_ID = "no transactional id has the producer id"
    NOT_IN_TRANSACTION = "the partition was not added to a transaction"
    OPEN_TRANSACTION = "the producer has a transaction open in the partition"
    TRANSACTION_TOO_LARGE = "the transaction has too many partitions"
    LATE_IN_TRANSACTION = "another transaction has begun since the batch arrived"
    MIRRORED = "the topic is mirrored from another cluster"
    MISPLACED = "the mirrored batch does not follow the partition's end"


class BatchOutcome(NamedTuple):
    """The result of one batch.

    base_offset: -1 if refused, or if only the fact of its commit is still known.
    append_time_ms: -1 unless the topic has LogAppendTime.
    """

    refusal: Refusal | None
    base_offset: int
    append_time_ms: int
    log_start_offset: int


def append_time_topics(
    state: ClusterState, batches: Iterable[BatchFacts], is_append_time: Callable[[Topic], bool]
) -> frozenset[bytes]:
    """Return the ids of the batches' topics that have LogAppendTime."""
    topics = (state.topics.by_id.get(each) for each in {each.topic_id for each in batches})
    return frozenset(each.topic_id for each in topics if each is not None and is_append_time(each))


_REFUSED = {reason: BatchOutcome(reason, -1, -1, -1) for reason in Refusal}
_MISFITS = {
    Misfit.UNKNOWN_ID: _REFUSED[Refusal.UNKNOWN_TRANSACTIONAL_ID],
    Misfit.STALE_EPOCH: _REFUSED[Refusal.STALE_PRODUCER_EPOCH],
    Misfit.NOT_ADDED: _REFUSED[Refusal.NOT_IN_TRANSACTION],
    Misfit.LATE: _REFUSED[Refusal.LATE_IN_TRANSACTION],
    Misfit.NOT_TRANSACTIONAL: _REFUSED[Refusal.OPEN_TRANSACTION],
    Misfit.TOO_LARGE: _REFUSED[Refusal.TRANSACTION_TOO_LARGE],
}
_COMMITTED_BEFORE = BatchOutcome(None, -1, -1, -1)


@dataclass(frozen=True, slots=True, eq=False)
class CommitWal:
    """Make the batches of a stored object readable.

    batches: in object order.  append_time_topics: ids of those that have LogAppendTime.
    mirrored: those that a mirror brings, by position in the object.
    is_walked: max_timestamp of all batches is that of their records.
    Answer: one BatchOutcome per batch.
    """

    name: WalName
    size_bytes: int
    batches: Sequence[BatchFacts]
    append_time_topics: frozenset[bytes] = frozenset()
    mirrored: Mapping[int, MirroredBatch] = field(default_factory=dict[int, MirroredBatch])
    is_walked: bool = False
    reads: frozenset[str] = field(default=frozenset({TOPICS, GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS}), init=False)

    def decide(self, view: View) -> Decided[list[BatchOutcome]]:
        """See the module's head."""
        refused = self._refused_as_a_whole(view)
        if refused is not None:
            return Decided((), [refused] * len(self.batches))
        judge = _Judge(view, self.append_time_topics, self.mirrored, is_walked=self.is_walked)
        judge_one = judge.judge_mixed if self.mirrored else judge.judge
        outcomes = [judge_one(batch) for batch in self.batches]
        event = WalCommitted(
            self.name.incarnation,
            self.name.counter,
            self.size_bytes,
            tuple(judge.runs()),
            tuple(judge.producers()),
        )
        judge.leave_in_overlay(self.name)
        return Decided((event, *judge.transactions.events(), *judge.mirror.events()), outcomes)

    def _refused_as_a_whole(self, view: View) -> BatchOutcome | None:
        if not view.state.gateways.is_live(self.name.incarnation):
            return _REFUSED[Refusal.ABANDONED]
        status = view.state.objects.wal_status(self.name)
        if status is WalStatus.ABANDONED:
            return _REFUSED[Refusal.ABANDONED]
        if status is WalStatus.COMMITTED or self.name in view.wal_ids:
            return _COMMITTED_BEFORE
        return None


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


class _Judge:
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
        self._append_time_ms = _append_time(view)
        self._next_offsets: dict[int, int] = {}
        self._producers: dict[tuple[int, int], ProducerState] = {}
        self._new_producers: dict[int, int] = {}
        self._runs: list[_OpenRun] = []
        # The partition whose batches are being judged; _partition is None for one that no client
        # may write to, and so is _mirrored, unless a mirror may.
        self._topic_id = b""
        self._index = -1
        self._partition: Partition | None = None
        self._mirrored: Partition | None = None
        self._stamp_ms = -1
        self._next_offset = 0
        self._run: _OpenRun | None = None
        self.producer_batches: list[ProducerBatch] = []
        self.transactions: Final = TransactionJudge(view)
        self.mirror: Final = MirrorJudge(mirrored)
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
        if producer_id > NO_PRODUCER_ID:  # a negative id is none, too, as in Kafka
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

        A topic may have been switched since its batch was mirrored.
        """
        if self.mirror.find(batch.position) is not None:
            topic = self._view.state.topics.by_id.get(batch.topic_id)
            if topic is None or not topic.link:
                return _REFUSED[Refusal.MISPLACED]
        return self.judge(batch)

    def _judge_apart(self, batch: BatchFacts) -> BatchOutcome:
        """Judge a batch of a partition that no client may write to."""
        partition = self._mirrored
        mirrored = self.mirror.find(batch.position)
        if partition is None:
            return _REFUSED[Refusal.UNKNOWN_TOPIC if mirrored is None else Refusal.MISPLACED]
        if mirrored is None:
            return _REFUSED[Refusal.MIRRORED]
        is_older = 0 <= mirrored.leader_epoch < partition.leader_epoch
        fits = mirrored.follows(self._next_offset) and mirrored.next_offset <= MAX_INT64
        if is_older or not fits:
            return _REFUSED[Refusal.MISPLACED]
        self._accept_mirrored(batch, partition, mirrored)
        return BatchOutcome(None, mirrored.base_offset, -1, partition.log_start)

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
            self._note_producer(batch, (partition.number, producer[0]), mirrored.base_offset, -1)
        self.mirror.accept(partition.number, partition.leader_epoch, mirrored, producer)
        self._next_offset = mirrored.next_offset

    def _turn_to(self, topic_id: bytes, index: int) -> None:
        """Turn to the batches of another partition: in an object they lie together."""
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
        """Refuse a batch whose last record would have no offset; a smaller one may have.

        A batch claims its number of records, and no gateway counts them: so 2^32 small requests can
        bring a partition here.  Below the level, the author's release may not know this answer.
        """
        is_told = self._view.state.metadata_version >= WIDE_NUMBERS
        return _REFUSED[Refusal.OFFSETS_RUN_OUT if is_told else Refusal.ABANDONED]

    def _judge_producer(self, batch: BatchFacts, partition: Partition) -> BatchOutcome | None:
        if batch.flags or partition.open or self._view.transactions.is_used:
            return self._judge_transaction(batch, partition)
        return self._judge_sequence(batch, partition)

    def _judge_transaction(self, batch: BatchFacts, partition: Partition) -> BatchOutcome | None:
        """Judge a batch of a producer that may have transactions, in Kafka's order of checks.

        A batch that is refused for its sequence has still added its partition.
        """
        flags, producer_id, number = batch.flags, batch.producer_id, partition.number
        if flags:
            misfit = self.transactions.fit(flags, producer_id, batch.producer_epoch, number)
            return self._judge_sequence(batch, partition) if misfit is None else _MISFITS[misfit]
        settled = self._judge_sequence(batch, partition)
        if settled is None and self.transactions.is_inside(producer_id, number):
            return _MISFITS[Misfit.NOT_TRANSACTIONAL]
        return settled

    def _judge_sequence(self, batch: BatchFacts, partition: Partition) -> BatchOutcome | None:
        key = (partition.number, batch.producer_id)
        known = self._producer(key)
        if known is None:
            begins = batch.flags & MAY_ADD or self._is_young(batch.producer_id)
            if batch.first_sequence and begins:
                return _REFUSED[Refusal.OUT_OF_ORDER_SEQUENCE]
        elif batch.producer_epoch < known.epoch:
            return _REFUSED[Refusal.STALE_PRODUCER_EPOCH]
        elif batch.producer_epoch > known.epoch:
            if batch.first_sequence:
                return _REFUSED[Refusal.OUT_OF_ORDER_SEQUENCE]
        else:
            repeated = known.duplicate_of(batch.first_sequence, batch.last_sequence)
            if repeated is not None:
                return BatchOutcome(
                    None, repeated.base_offset, repeated.append_time_ms, partition.log_start
                )
            if batch.first_sequence != known.expected_sequence():
                return _REFUSED[self._not_next(batch, known)]
        return None

    def _not_next(self, batch: BatchFacts, known: ProducerState) -> Refusal:
        """Distinguish a repeat that is older than all kept batches from a gap.

        A Java producer whose answers are lost continues at another gateway, and repeats unanswered
        batches up to request.timeout.ms later.  It treats DUPLICATE_SEQUENCE as success.  At
        OUT_OF_ORDER_SEQUENCE it repeats until delivery.timeout.ms and then reports a loss although
        the batch was written, and the partition is blocked for so long.

        Below the level, the author's release may not be able to read this answer.
        """
        if self._view.state.metadata_version < DUPLICATES_TOLD:
            return Refusal.OUT_OF_ORDER_SEQUENCE
        is_old = known.has_forgotten(batch.first_sequence, batch.last_sequence)
        if is_old and self._is_young(batch.producer_id):
            return Refusal.DUPLICATE_SEQUENCE
        return Refusal.OUT_OF_ORDER_SEQUENCE

    def _is_young(self, producer_id: int) -> bool:
        """No state of a young producer id can have been forgotten: it starts at zero."""
        return self._view.state.producer_ids.is_young(producer_id)

    def _accept_producer(
        self, batch: BatchFacts, key: tuple[int, int], append_time_ms: int
    ) -> None:
        base_offset = self._next_offset
        if batch.flags:
            self.transactions.accept(batch.producer_id, key[0], base_offset)
        if self._producer(key) is not None or self._has_room(key):
            self._note_producer(batch, key, base_offset, append_time_ms)

    def _has_room(self, key: tuple[int, int]) -> bool:
        """Return whether a new producer of a partition is noted: not if its id is made up, and the
        partition has many producers.  See the module's head.
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
        self, batch: BatchFacts, key: tuple[int, int], base_offset: int, append_time_ms: int
    ) -> None:
        kept = KeptBatch(batch.first_sequence, batch.last_sequence, base_offset, append_time_ms)
        self._producers[key] = with_batch(
            self._producer(key), batch.producer_epoch, kept, self._view.log_time_ms
        )
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

    def runs(self) -> Iterable[Run]:
        for run in self._runs:
            yield Run(
                run.partition.number,
                run.position,
                run.end - run.position,
                run.base_offset,
                run.record_count,
                run.max_timestamp,
                run_check(run.partition.topic_id, run.partition.index, run.crcs),
                run.flags,
            )

    def producers(self) -> list[ProducerBatch]:
        return last_batches(self.producer_batches) if self.mirror else self.producer_batches

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


def _append_time(view: View) -> int:
    """The writer's clock, or log time where that is later.

    A stamp in the past would let retention take the record early; one in the future keeps it.
    """
    return max(view.clock_ms, view.log_time_ms)


@dataclass(frozen=True, slots=True)
class AbandonWal:
    """Abandon a WAL id for ever, so that its object may be collected.

    Answer: False if it was committed before, so it is not abandoned.
    """

    name: WalName
    reads: frozenset[str] = field(default=frozenset({HEADS, GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=NOTHING, init=False)

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        if not view.state.gateways.is_live(self.name.incarnation):
            return Decided((), True)
        status = view.state.objects.wal_status(self.name)
        if status is WalStatus.UNKNOWN:
            event = WalAbandoned(self.name.incarnation, self.name.counter)
            return Decided((event,), True)
        return Decided((), status is WalStatus.ABANDONED)
