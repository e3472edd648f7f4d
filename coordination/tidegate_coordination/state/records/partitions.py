"""A partition: log start, next offset, runs, producers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import Final

from ...events.cluster import RUN_SEGMENT, ProducerBatch, Run
from ...events.links import STEP_ABORTED, STEP_BEGAN, MirrorStep
from ..broken import StateBroken, expect
from .aborted import Aborted
from .cleanings import Cleaning, Cleanings, cleaned_to, uncleaned_from, with_cleaning
from .epochs import NO_EPOCHS, Epochs, EpochStart, end_of, epoch_at, latest, with_epoch
from .kept import KeptRuns
from .open_spans import OpenSpans
from .producers import KeptBatch, ProducerState, with_batch, with_marker
from .runs import MARKER_BYTES, Marker, RunRow, Runs

NO_RUNS: Final = Runs()


@dataclass(slots=True)
class Partition:
    """One partition.

    next_offset is the high watermark: uncommitted records have no offset.  size_bytes: the sum over
    all live runs.  cleanings: the rounds of compaction it has been through.  epochs: its leader
    epochs.
    open: the first offset of each open transaction, by producer id; None for none.
    aborted: the aborted transactions that readers of committed records need. kept: skipped runs
    that can be brought back; None for none.
    """

    number: int
    topic_id: bytes
    index: int
    log_start: int = 0
    next_offset: int = 0
    size_bytes: int = 0
    runs: Runs = NO_RUNS
    producers: dict[int, ProducerState] = field(default_factory=dict[int, ProducerState])
    cleanings: Cleanings = ()
    epochs: Epochs = NO_EPOCHS
    open: OpenSpans | None = None
    aborted: Aborted | None = None
    kept: KeptRuns | None = None

    @property
    def floor(self) -> int:
        """Return the log start that the partition has once all kept runs are back."""
        return self.kept.floor if self.kept is not None else self.log_start

    @property
    def last_stable_offset(self) -> int:
        """Return the LSO: where the first open transaction begins, else the high watermark.

        DeleteRecords may move the log start beyond it, as in Kafka.
        """
        return self._stable_above(self.log_start)

    def _stable_above(self, log_start: int) -> int:
        return self.next_offset if self.open is None else max(log_start, self.open.lowest)

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
        """Append a run at the end.  This fold runs millions of times."""
        base_offset = run.base_offset
        if base_offset != self.next_offset:
            raise StateBroken(
                f"partition {self.number}: run at {base_offset}, next is {self.next_offset}"
            )
        if self.runs is NO_RUNS:
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

        packed: the marker as packed_marker() gives it.  written: the producer's state if it has
        written nothing but the marker.  Both are made once for all partitions.
        """
        if offset != self.next_offset:
            raise StateBroken(
                f"partition {self.number}: marker at {offset}, next is {self.next_offset}"
            )
        if self.runs is NO_RUNS:
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
            # The log start may fall once skipped runs are back.
            stable = self._stable_above(self.floor)
            self.aborted.append(producer_id, first_offset, offset, stable)

    def fold_epoch(self, epoch: int, offset: int) -> bool:
        """Note the first offset of a leader epoch of the source; return whether it is new.

        Several objects of an entry may report the same epoch; the first one is right.
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
        # The partition may end beyond later steps, so the end of this step counts.
        stable = opened.lowest if opened else step.offset + 1
        self.aborted.append(producer_id, first_offset, step.offset, stable)

    def fold_place(self, log_start: int, next_offset: int) -> list[RunRow]:
        """Move the bounds of a mirrored partition up; return the removed runs."""
        expect(
            self.log_start <= log_start <= next_offset and next_offset >= self.next_offset,
            f"partition {self.number}: {log_start} to {next_offset} after {self.log_start}"
            f" to {self.next_offset}",
        )
        end, self.next_offset = self.next_offset, next_offset
        # If the source's log start has not moved, kept runs below it stay.
        dropped = self.fold_log_start(log_start if log_start > self.log_start else self.floor)
        if next_offset > end:
            self._end_transactions(next_offset, is_emptied=self.floor >= end)
        return dropped

    def _end_transactions(self, next_offset: int, *, is_emptied: bool) -> None:
        """End the open transactions of the source: it has removed their markers.

        Records of these transactions that stay here were removed at the source, so no reader of
        committed records may get them.  is_emptied: no such record stays, and no skipped one can
        come back.
        """
        opened, self.open = self.open, None
        if opened is None or is_emptied:
            return
        if self.aborted is None:
            self.aborted = Aborted()
        for producer_id, first_offset in opened.as_dict().items():
            self.aborted.append(producer_id, first_offset, next_offset - 1, next_offset)

    def fold_log_start(self, offset: int) -> list[RunRow]:
        """Move the log start up; return the removed runs, kept ones among them.

        If a skip has moved the log start already, an offset below it removes only kept runs.
        """
        expect(
            self.floor <= offset <= self.next_offset,
            f"partition {self.number}: log start {offset} outside {self.floor}..{self.next_offset}",
        )
        self.log_start = max(self.log_start, offset)
        if self.aborted is not None:
            self.aborted.drop_below(offset)
        dropped = self.runs.cut_below(offset)
        self.size_bytes -= sum(row.length for row in dropped)
        return dropped + self._kept_below(offset)

    def _kept_below(self, offset: int) -> list[RunRow]:
        if self.kept is None:
            return []
        dropped = self.kept.cut_below(offset)
        self.kept = self.kept if len(self.kept) else None
        return dropped

    def rows(self) -> Iterator[RunRow]:
        """Return all runs in offset order: the live ones and the kept ones."""
        live = (self.runs[index] for index in range(len(self.runs)))
        return merge(live, self.kept) if self.kept is not None else live

    def runs_between(self, base_offset: int, next_offset: int) -> list[RunRow]:
        """Return the runs that are exactly [base_offset, next_offset)."""
        start, stop = self._indexes(base_offset, next_offset)
        return [self.runs[index] for index in range(start, stop)]

    def fold_segments(self, base_offset: int, next_offset: int, rows: Sequence[RunRow]) -> None:
        """Put segments, or runs of a stored object, in the place of [base_offset, next_offset)."""
        start, stop = self._indexes(base_offset, next_offset)
        self._expect_order(base_offset, next_offset, rows)
        dropped = self.runs.replace(start, stop, rows)
        self.size_bytes += sum(row.length for row in rows) - sum(row.length for row in dropped)
        if self.aborted is not None:
            # Below the first run that is in no segment, the segments' indexes hold the aborted
            # transactions.
            merged_to = self.runs.merged_to(RUN_SEGMENT)
            if self.kept is not None:
                merged_to = self.kept.merged_to(merged_to)
            self.aborted.drop_below(merged_to)

    def fold_cleaning(self, end_offset: int, log_time_ms: int, retention_ms: int) -> None:
        """Note that everything below an offset was compacted."""
        expect(
            cleaned_to(self.cleanings) < end_offset <= self.next_offset,
            f"partition {self.number}: cleaned to {end_offset} after {self.cleanings}",
        )
        self.cleanings = with_cleaning(
            self.cleanings, Cleaning(end_offset, log_time_ms), retention_ms
        )

    def fold_skipped(self, base_offset: int, next_offset: int, *, keeps: bool) -> list[RunRow]:
        """Take the runs in [base_offset, next_offset) out; return them.

        The log start moves only if they are the first.  keeps: so that they can be brought back.
        """
        start, stop = self._indexes(base_offset, next_offset)
        dropped = self.runs.replace(start, stop, ())
        self.size_bytes -= sum(row.length for row in dropped)
        if keeps:
            self.kept = self.kept if self.kept is not None else KeptRuns(self.log_start)
            self.kept.add(dropped)
        if start == 0:
            first = self.runs[0].base_offset if len(self.runs) else self.next_offset
            self.log_start = max(self.log_start, first)
        return dropped

    def kept_between(self, base_offset: int, next_offset: int) -> list[RunRow]:
        """Return the kept runs that are exactly [base_offset, next_offset)."""
        rows = self.kept.between(base_offset, next_offset) if self.kept is not None else []
        where = f"partition {self.number}"
        expect(bool(rows), f"{where}: no kept runs are {base_offset} to {next_offset}")
        is_hole = self.runs.find(base_offset) == self.runs.index_from(next_offset)
        expect(is_hole, f"{where}: {base_offset} to {next_offset} is no hole")
        return rows

    def fold_brought_back(self, base_offset: int, next_offset: int) -> None:
        """Put kept runs back in their place; the log start falls if they are the first."""
        floor = self.floor
        rows = self.fold_given_up(base_offset, next_offset)
        at = self.runs.index_from(base_offset)
        self.runs.replace(at, at, rows)
        self.size_bytes += sum(row.length for row in rows)
        # Rounds of compaction that ran meanwhile have not seen these runs.
        self.cleanings = uncleaned_from(self.cleanings, base_offset)
        self.log_start = min(self.log_start, max(floor, base_offset))

    def fold_given_up(self, base_offset: int, next_offset: int) -> list[RunRow]:
        """Drop the kept runs in [base_offset, next_offset); return them."""
        rows = self.kept_between(base_offset, next_offset)
        if self.kept is not None:
            self.kept.take(base_offset, next_offset)
            self.kept = self.kept if len(self.kept) else None
        return rows

    def _indexes(self, base_offset: int, next_offset: int) -> tuple[int, int]:
        span = self.runs.span(base_offset, next_offset)
        if not span:
            raise StateBroken(
                f"partition {self.number}: no runs are {base_offset} to {next_offset}"
            )
        return span.start, span.stop

    def _expect_order(self, base_offset: int, next_offset: int, rows: Sequence[RunRow]) -> None:
        """Check that the segments follow each other, and cover exactly the replaced offsets."""
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
