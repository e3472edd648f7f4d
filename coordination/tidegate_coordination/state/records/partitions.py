"""Partitions by their dense number: log start, next offset, runs, producers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from ...events.cluster import RUN_SEGMENT, ProducerBatch, Run
from ...events.links import STEP_ABORTED, STEP_BEGAN, MirrorStep
from ..broken import StateBroken, expect
from ..frozen import FrozenRows
from ..long_values import SLICE_ROWS, LongList, LongValue, sorted_slices
from .aborted import Aborted
from .cleanings import Cleaning, Cleanings, cleaned_to, with_cleaning
from .epochs import NO_EPOCHS, Epochs, EpochStart, end_of, epoch_at, latest, with_epoch
from .open_spans import OpenSpans
from .producers import KeptBatch, ProducerState, with_batch, with_marker
from .runs import MARKER_BYTES, Marker, RunRow, Runs

_NO_RUNS = Runs()


@dataclass(slots=True)
class Partition:
    """One partition.

    next_offset is the high watermark: uncommitted records have no offset.  size_bytes: of all
    live runs.  cleanings: the rounds of compaction it has been through.  epochs: its leader epochs.
    open: the first offset of each open transaction, by producer id; None for none.  aborted:
      transactions, of which readers of committed records must hear.
    """

    number: int
    topic_id: bytes
    index: int
    log_start: int = 0
    next_offset: int = 0
    size_bytes: int = 0
    runs: Runs = _NO_RUNS
    producers: dict[int, ProducerState] = field(default_factory=dict[int, ProducerState])
    cleanings: Cleanings = ()
    epochs: Epochs = NO_EPOCHS
    open: OpenSpans | None = None
    aborted: Aborted | None = None

    @property
    def last_stable_offset(self) -> int:
        """Return the LSO: where the first open transaction begins, else the high watermark.

        DeleteRecords may move the log start beyond it, as in Kafka.
        """
        opened = self.open
        if opened is None:
            return self.next_offset
        return max(self.log_start, opened.lowest)

    @property
    def leader_epoch(self) -> int:
        """Return the present leader epoch."""
        return latest(self.epochs)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of an offset."""
        return epoch_at(self.epochs, offset)

    def epoch_end(self, epoch: int) -> EpochStart | None:
        """Return where an epoch ends; see end_of()."""
        return end_of(self.epochs, epoch, log_start=self.log_start, next_offset=self.next_offset)

    def fold_run(self, run: Run, object_number: int) -> None:
        """Append a run at the end.  The one fold that happens a million times."""
        base_offset = run.base_offset
        if base_offset != self.next_offset:
            raise StateBroken(
                f"partition {self.number}: run at {base_offset}, next is {self.next_offset}"
            )
        if self.runs is _NO_RUNS:
            self.runs = Runs(base_offset)
        self.next_offset = base_offset + run.record_count
        self.size_bytes += run.length
        self.runs.append(run, object_number)

    def fold_producer(self, batch: ProducerBatch, append_time_ms: int, log_time_ms: int) -> None:
        """Note an idempotent batch."""
        kept = KeptBatch(
            batch.first_sequence, batch.last_sequence, batch.base_offset, append_time_ms
        )
        state = self.producers.get(batch.producer_id)
        self.producers[batch.producer_id] = with_batch(
            state, batch.producer_epoch, kept, log_time_ms
        )

    def fold_transaction(self, producer_id: int, first_offset: int) -> None:
        """Note where a transaction of a producer begins."""
        opened = self.open if self.open is not None else OpenSpans()
        expect(
            producer_id not in opened and first_offset < self.next_offset,
            f"partition {self.number}: a transaction of {producer_id} at {first_offset}",
        )
        opened.begin(producer_id, first_offset)
        self.open = opened

    def fold_marker(
        self, offset: int, marker: Marker, packed: bytes, written: ProducerState
    ) -> None:
        """End the transaction of a producer with a marker at the end of the partition.

        packed: the marker as packed_marker() gives it.  written: the state of a producer that has
          only written the marker.  Both are made once for all partitions.
        """
        if offset != self.next_offset:
            raise StateBroken(
                f"partition {self.number}: marker at {offset}, next is {self.next_offset}"
            )
        if self.runs is _NO_RUNS:
            self.runs = Runs(offset)
        self.runs.append_marker(offset, packed)
        self.next_offset = offset + 1
        self.size_bytes += MARKER_BYTES
        producer_id = marker.producer_id
        state = self.producers.get(producer_id)
        if state is None or state.epoch != written.epoch:
            self.producers[producer_id] = written
        else:
            self.producers[producer_id] = with_marker(state, state.epoch, written.last_write_ms)
        opened = self.open
        if opened is None:
            return
        first_offset = opened.end(producer_id)
        if not opened:
            self.open = None
        if first_offset is not None and not marker.committed:
            if self.aborted is None:
                self.aborted = Aborted()
            self.aborted.append(producer_id, first_offset, offset, self.last_stable_offset)

    def fold_epoch(self, epoch: int, offset: int) -> bool:
        """Note the first offset of a leader epoch of the source; return whether it is new.

        Objects of one entry may all say so, and the first is right.
        """
        is_new = epoch > self.leader_epoch
        if is_new:
            self.epochs = with_epoch(self.epochs, epoch, offset)
        return is_new

    def fold_step(self, step: MirrorStep, log_time_ms: int) -> None:
        """Note a step of a transaction of the source."""
        opened = self.open if self.open is not None else OpenSpans()
        if step.kind == STEP_BEGAN:
            if step.producer_id not in opened:
                opened.begin(step.producer_id, step.offset)
        else:
            self._fold_mirrored_marker(opened, step, log_time_ms)
        self.open = opened or None

    def _fold_mirrored_marker(self, opened: OpenSpans, step: MirrorStep, log_time_ms: int) -> None:
        producer_id, epoch = step.producer_id, step.producer_epoch
        state = self.producers.get(producer_id)
        if state is None or state.epoch < epoch:  # later batches may be noted already
            self.producers[producer_id] = with_marker(None, epoch, log_time_ms)
        first_offset = opened.end(producer_id)
        if first_offset is None or step.kind != STEP_ABORTED:
            return
        if self.aborted is None:
            self.aborted = Aborted()
        # The partition's end may lie beyond later steps, so the end of this one counts.
        stable = opened.lowest if opened else step.offset + 1
        self.aborted.append(producer_id, first_offset, step.offset, stable)

    def fold_place(self, log_start: int, next_offset: int) -> list[RunRow]:
        """Move the bounds of a mirrored partition up; return the removed runs."""
        expect(
            self.log_start <= log_start <= next_offset and next_offset >= self.next_offset,
            f"partition {self.number}: {log_start} to {next_offset} after {self.log_start}"
            f" to {self.next_offset}",
        )
        if next_offset > self.next_offset:
            self._end_transactions(next_offset, is_emptied=log_start >= self.next_offset)
        self.next_offset = next_offset
        return self.fold_log_start(log_start)

    def _end_transactions(self, next_offset: int, *, is_emptied: bool) -> None:
        """End the open transactions of the source: it has removed their markers.

        Records of them that stay here are those that the source removed, so no reader of committed
        records may get them.  is_emptied: none stay.
        """
        opened, self.open = self.open, None
        if opened is None or is_emptied:
            return
        if self.aborted is None:
            self.aborted = Aborted()
        for producer_id, first_offset in opened.as_dict().items():
            self.aborted.append(producer_id, first_offset, next_offset - 1, next_offset)

    def fold_log_start(self, offset: int) -> list[RunRow]:
        """Move the log start up; return the removed runs."""
        expect(
            self.log_start <= offset <= self.next_offset,
            f"partition {self.number}: log start {offset} outside {self.log_start}"
            f"..{self.next_offset}",
        )
        self.log_start = offset
        if self.aborted is not None:
            self.aborted.drop_below(offset)
        dropped = self.runs.cut_below(offset)
        self.size_bytes -= sum(row.length for row in dropped)
        return dropped

    def runs_between(self, base_offset: int, next_offset: int) -> list[RunRow]:
        """Return the runs that are exactly [base_offset, next_offset)."""
        start, stop = self._indexes(base_offset, next_offset)
        return [self.runs[index] for index in range(start, stop)]

    def fold_segments(self, base_offset: int, next_offset: int, rows: Sequence[RunRow]) -> None:
        """Put segments in the place of the runs in [base_offset, next_offset)."""
        start, stop = self._indexes(base_offset, next_offset)
        self._expect_order(base_offset, next_offset, rows)
        dropped = self.runs.replace(start, stop, rows)
        self.size_bytes += sum(row.length for row in rows) - sum(row.length for row in dropped)
        if self.aborted is not None:
            # Below the first run that is in no segment, the segments' indexes name them.
            self.aborted.drop_below(self.runs.merged_to(RUN_SEGMENT))

    def fold_cleaning(self, end_offset: int, log_time_ms: int, retention_ms: int) -> None:
        """Note that everything below an offset was compacted."""
        expect(
            cleaned_to(self.cleanings) < end_offset <= self.next_offset,
            f"partition {self.number}: cleaned to {end_offset} after {self.cleanings}",
        )
        self.cleanings = with_cleaning(
            self.cleanings, Cleaning(end_offset, log_time_ms), retention_ms
        )

    def fold_skipped(self, base_offset: int, next_offset: int) -> list[RunRow]:
        """Take the runs in [base_offset, next_offset) out; return them.

        The log start moves only if they are the first.
        """
        start, stop = self._indexes(base_offset, next_offset)
        dropped = self.runs.replace(start, stop, ())
        self.size_bytes -= sum(row.length for row in dropped)
        if start == 0:
            first = self.runs[0].base_offset if len(self.runs) else self.next_offset
            self.log_start = max(self.log_start, first)
        return dropped

    def _indexes(self, base_offset: int, next_offset: int) -> tuple[int, int]:
        runs = self.runs
        start, stop = runs.index_of(base_offset), runs.index_from(next_offset)
        if start is None or start >= stop or runs[stop - 1].next_offset != next_offset:
            raise StateBroken(
                f"partition {self.number}: no runs are {base_offset} to {next_offset}"
            )
        return start, stop

    def _expect_order(self, base_offset: int, next_offset: int, rows: Sequence[RunRow]) -> None:
        """Segments follow each other; the first stands for the place of the first run."""
        at = base_offset
        for row in rows:
            is_next = row.base_offset == at and at < row.next_offset <= next_offset
            expect(is_next, f"partition {self.number}: a segment {row} where {at} is next")
            at = row.next_offset
        expect(at == next_offset, f"partition {self.number}: segments end at {at}")

    def expire_producers(self, before_ms: int) -> None:
        """Forget producers that last wrote before a log time, but none with a transaction open."""
        if any(state.last_write_ms < before_ms for state in self.producers.values()):
            opened = self.open.as_dict() if self.open else {}
            self.producers = {
                producer_id: state
                for producer_id, state in self.producers.items()
                if state.last_write_ms >= before_ms or producer_id in opened
            }

    def encode(self, *, is_wide: bool) -> list[object] | LongValue:
        """Return all of it as builtins.

        Only snapshots from format 6 on can have epochs, and from format 7 on transactions.
        is_wide: see Runs.encode().
        """
        has_transactions = self.open is not None or bool(self.aborted)
        is_long = len(self.producers) > SLICE_ROWS
        fields: list[object] = [
            self.number,
            self.topic_id,
            self.index,
            self.log_start,
            self.next_offset,
            self.size_bytes,
            self.runs.encode(is_wide=is_wide) if self.runs is not _NO_RUNS else None,
            self._long_producers() if is_long else self._producer_rows(),
            self.cleanings,
            *((self.epochs,) if self.epochs or has_transactions else ()),
            *(self._encode_transactions() if has_transactions else ()),
        ]
        return LongValue.of_row(fields) if is_long else fields

    def _producer_rows(self) -> list[object]:
        return [_producer_row(*each) for each in sorted(self.producers.items())]

    def _long_producers(self) -> LongList:
        producers = self.producers.copy()
        return LongList(len(producers), sorted_slices(producers, _producer_row))

    def _encode_transactions(self) -> tuple[object, object]:
        aborted = self.aborted.encode() if self.aborted else None
        return list(self.open.as_dict().items()) if self.open else [], aborted

    def _decode_transactions(self, opened: list[Any], aborted: list[Any] | None) -> None:
        if opened:
            self.open = OpenSpans((producer_id, offset) for producer_id, offset in opened)
        self.aborted = Aborted.decode(aborted) if aborted is not None else None

    @classmethod
    def decode(cls, row: list[Any]) -> Partition:
        """Return what encode() was called on."""
        number, topic_id, index, log_start, next_offset, size_bytes, runs, producers, *more = row
        partition = cls(number, topic_id, index, log_start, next_offset, size_bytes)
        if runs is not None:
            partition.runs = Runs.decode(runs)
        for producer_id, epoch, batches, last_write_ms in producers:
            kept = tuple(KeptBatch(*each) for each in batches)
            partition.producers[producer_id] = ProducerState(epoch, kept, last_write_ms)
        if more:  # format 2 has none
            partition.cleanings = tuple(Cleaning(*each) for each in more[0])
        partition.epochs = tuple(EpochStart(*each) for each in more[1]) if more[1:] else NO_EPOCHS
        if more[2:]:
            partition._decode_transactions(*more[2:])
        return partition


def _producer_row(producer_id: int, state: ProducerState) -> list[object]:
    batches = [list(each) for each in state.batches]
    return [producer_id, state.epoch, batches, state.last_write_ms]


class PartitionTable:
    """All partitions; numbers are given out in order and never again.

    first_epoch: in which new ones begin.
    """

    def __init__(self) -> None:
        self._partitions: dict[int, Partition] = {}
        self._shared_epochs: dict[Epochs, Epochs] = {}
        self.next_number = 0
        self.first_epoch = 0

    def __getitem__(self, number: int) -> Partition:
        """Return the partition; KeyError when its topic was deleted."""
        return self._partitions[number]

    def get(self, number: int) -> Partition | None:
        """Return the partition, or None when its topic was deleted."""
        return self._partitions.get(number)

    def __len__(self) -> int:
        return len(self._partitions)

    def values(self) -> Iterable[Partition]:
        """Return all partitions in the order of their numbers."""
        return self._partitions.values()

    def highest_producer_id(self, counts: Callable[[int], bool] = lambda _: True) -> int:
        """Return the highest producer id that any partition remembers, of those that count.

        It is -1 if there is none.
        """
        met = (producer for each in self._partitions.values() for producer in each.producers)
        return max(filter(counts, met), default=-1)

    def add(self, topic_id: bytes, first_index: int, count: int) -> list[int]:
        """Make partitions; return their numbers."""
        epoch = self.first_epoch
        epochs = self._shared((EpochStart(epoch, 0),)) if epoch else NO_EPOCHS
        return self._add(topic_id, first_index, count, epochs)

    def add_without_epochs(self, topic_id: bytes, first_index: int, count: int) -> list[int]:
        """Make mirrored partitions, which have the epochs of another cluster."""
        return self._add(topic_id, first_index, count, NO_EPOCHS)

    def _add(self, topic_id: bytes, first_index: int, count: int, epochs: Epochs) -> list[int]:
        numbers = list(range(self.next_number, self.next_number + count))
        for place, number in enumerate(numbers):
            added = Partition(number, topic_id, first_index + place, epochs=epochs)
            self._partitions[number] = added
        self.next_number += count
        return numbers

    def remove(self, number: int) -> Partition:
        """Drop a partition of a deleted topic and return it."""
        expect(number in self._partitions, f"partition {number} is unknown")
        return self._partitions.pop(number)

    def fold_epochs_opened(
        self, step: int, at_least: int, mirrored: Set[int] = frozenset()
    ) -> None:
        """Begin a new epoch in all partitions but the mirrored ones, each at its end; new ones
        begin in it, too.

        The source of a mirrored one has lost nothing, and gives its offsets again.

        step: as many epochs may have been opened unseen, but for one.  at_least: epochs below it
        may have been opened where they left no trace.
        """
        self.first_epoch = max(self.first_epoch + step, at_least)
        for each in self._partitions.values():
            if each.number in mirrored:
                continue
            epoch = max(each.leader_epoch + step, at_least)
            each.epochs = self._shared(with_epoch(each.epochs, epoch, each.next_offset))

    def _shared(self, epochs: Epochs) -> Epochs:
        """Return equal histories of partitions that began in them as one: there are few such."""
        is_first = len(epochs) == 1 and epochs[0].offset == 0
        return self._shared_epochs.setdefault(epochs, epochs) if is_first else epochs

    def frozen(self, *, is_wide: bool) -> FrozenRows[int]:
        """Return all rows as they are now; is_wide: see Runs.encode()."""

        def encode(number: int) -> object:
            return self[number].encode(is_wide=is_wide)

        return FrozenRows("partitions", self._partitions, encode)

    def decode(self, rows: list[Any]) -> None:
        """Add some of the frozen rows, in their order."""
        for row in rows:
            decoded = self._partitions[row[0]] = Partition.decode(row)
            if decoded.epochs:
                decoded.epochs = self._shared(decoded.epochs)
