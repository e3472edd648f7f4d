"""Committing and abandoning WAL objects.

Every batch is judged against the state at the position the commit gets: its topic may be gone, its
producer fenced, its sequence out of order, or it may be a duplicate.  A refused batch leaves dead
bytes in the object and nothing else; it never fails its neighbours.

Idempotence is Kafka's (KIP-98, KIP-360): epoch, sequence and the last five batches per producer and
partition.  A gap is out of order at once: a WAL id commits once, so nothing waits in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tidegate_storage.runs import run_check

from ..events import RUN_LOG_APPEND_TIME, ProducerBatch, Run, WalAbandoned, WalCommitted
from ..state.objects import WalName, WalStatus
from ..state.partitions import Partition
from ..state.producers import KeptBatch, ProducerState, with_batch
from ..state.topics import Topic
from .proposal import GATEWAYS, HEADS, NOTHING, TOPICS, Decided, View

NO_PRODUCER_ID = -1


class BatchFacts(NamedTuple):
    """One batch of a stored WAL object, as its header says.

    position, length: bytes in the object.  crc: the header's.  last_sequence: of the last record.
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


class Refusal(Enum):
    """Why a batch was left out."""

    UNKNOWN_TOPIC = "the topic or partition does not exist (any more)"
    STALE_PRODUCER_EPOCH = "a newer epoch of the producer has written"
    OUT_OF_ORDER_SEQUENCE = "the sequence number does not follow the last one"
    ABANDONED = "the object was given up before it was committed"


class BatchOutcome(NamedTuple):
    """What became of one batch.

    base_offset: -1 when refused, or when only its being committed is still known.
    append_time_ms: -1 unless the topic has LogAppendTime.
    """

    refusal: Refusal | None
    base_offset: int
    append_time_ms: int
    log_start_offset: int


_REFUSED = {reason: BatchOutcome(reason, -1, -1, -1) for reason in Refusal}
_COMMITTED_BEFORE = BatchOutcome(None, -1, -1, -1)


@dataclass(frozen=True, slots=True, eq=False)
class CommitWal:
    """Make the batches of a stored object readable.

    batches: in object order.  is_append_time: tells if a topic has LogAppendTime.
    Answer: one BatchOutcome per batch.
    """

    name: WalName
    size_bytes: int
    batches: Sequence[BatchFacts]
    is_append_time: Callable[[Topic], bool]
    reads: frozenset[str] = field(default=frozenset({TOPICS, GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=frozenset({HEADS}), init=False)

    def decide(self, view: View) -> Decided[list[BatchOutcome]]:
        """See the module's head."""
        refused = self._refused_as_a_whole(view)
        if refused is not None:
            return Decided((), [refused] * len(self.batches))
        judge = _Judge(view, self.is_append_time)
        outcomes = [judge.judge(batch) for batch in self.batches]
        event = WalCommitted(
            self.name.incarnation,
            self.name.counter,
            self.size_bytes,
            tuple(judge.runs()),
            tuple(judge.producer_batches),
        )
        judge.leave_in_overlay(self.name)
        return Decided((event,), outcomes)

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
    length: int
    base_offset: int
    record_count: int
    max_timestamp: int
    crcs: list[int]
    is_append_time: bool


class _Judge:
    """Judges the batches of one object in order."""

    def __init__(self, view: View, is_append_time: Callable[[Topic], bool]) -> None:
        self._view = view
        self._is_append_time = is_append_time
        self._append_time_ms = _append_time(view)
        self._next_offsets: dict[int, int] = {}
        self._producers: dict[tuple[int, int], ProducerState] = {}
        self._runs: list[_OpenRun] = []
        self.producer_batches: list[ProducerBatch] = []

    def judge(self, batch: BatchFacts) -> BatchOutcome:
        topic = self._view.state.topics.by_id.get(batch.topic_id)
        if topic is None or not 0 <= batch.partition < len(topic.partition_numbers):
            return _REFUSED[Refusal.UNKNOWN_TOPIC]
        number = topic.partition_numbers[batch.partition]
        partition = self._view.state.partitions[number]
        append_time_ms = self._append_time_ms if self._is_append_time(topic) else -1
        if batch.producer_id != NO_PRODUCER_ID:
            settled = self._judge_sequence(batch, partition, append_time_ms)
            if settled is not None:
                return settled
        return self._accept(batch, partition, append_time_ms)

    def _judge_sequence(
        self, batch: BatchFacts, partition: Partition, append_time_ms: int
    ) -> BatchOutcome | None:
        key = (partition.number, batch.producer_id)
        known = self._producer(key)
        if known is None:
            if batch.first_sequence and self._is_young(batch.producer_id):
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
                return _REFUSED[Refusal.OUT_OF_ORDER_SEQUENCE]
        self._accept_producer(batch, key, append_time_ms)
        return None

    def _is_young(self, producer_id: int) -> bool:
        """No state of a young producer id can have been forgotten: it starts at zero."""
        return self._view.state.producer_ids.is_young(producer_id)

    def _accept_producer(
        self, batch: BatchFacts, key: tuple[int, int], append_time_ms: int
    ) -> None:
        base_offset = self._next_offset(key[0])
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

    def _accept(self, batch: BatchFacts, partition: Partition, append_time_ms: int) -> BatchOutcome:
        base_offset = self._next_offset(partition.number)
        self._next_offsets[partition.number] = base_offset + batch.record_count
        last = self._runs[-1] if self._runs else None
        timestamp = append_time_ms if append_time_ms >= 0 else batch.max_timestamp
        if (
            last is not None
            and last.partition is partition
            and last.position + last.length == batch.position
        ):
            last.length += batch.length
            last.record_count += batch.record_count
            last.max_timestamp = max(last.max_timestamp, timestamp)
            last.crcs.append(batch.crc)
        else:
            self._runs.append(
                _OpenRun(
                    partition,
                    batch.position,
                    batch.length,
                    base_offset,
                    batch.record_count,
                    timestamp,
                    [batch.crc],
                    append_time_ms >= 0,
                )
            )
        return BatchOutcome(None, base_offset, append_time_ms, partition.log_start)

    def runs(self) -> Iterable[Run]:
        for run in self._runs:
            yield Run(
                run.partition.number,
                run.position,
                run.length,
                run.base_offset,
                run.record_count,
                run.max_timestamp,
                run_check(run.partition.topic_id, run.partition.index, run.crcs),
                RUN_LOG_APPEND_TIME if run.is_append_time else 0,
            )

    def leave_in_overlay(self, name: WalName) -> None:
        self._view.next_offsets.update(self._next_offsets)
        self._view.producers.update(self._producers)
        self._view.wal_ids.add(name)

    def _next_offset(self, number: int) -> int:
        offset = self._next_offsets.get(number)
        if offset is None:
            offset = self._view.next_offsets.get(number)
        if offset is None:
            offset = self._view.state.partitions[number].next_offset
        return offset

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
    """Refuse a WAL id for ever, so that its object may be collected.

    Answer: False when it was committed before, so nothing was given up.
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
