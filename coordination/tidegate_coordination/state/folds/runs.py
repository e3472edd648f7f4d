"""Folds that add, move and remove runs: in partitions, and in the objects that hold them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...events import cluster as ev
from ...events.metadata_versions import KEPT_SKIPS
from ..records.objects import SegmentName, WalName
from ..records.partitions import Partition
from ..records.runs import RunRow
from ..tables import StateTables


class RunFolds:
    """Folds the events about runs, for ClusterState.apply()."""

    def __init__(self, state: StateTables) -> None:
        self._state = state
        self._partitions: Final = state.partitions
        self._objects: Final = state.objects
        self._touched: Final = state.touched

    def fold_wal_committed(self, event: ev.WalCommitted) -> None:
        """The runs of an object become readable."""
        number = self._objects.fold_committed(
            WalName(event.incarnation, event.counter),
            event.size_bytes,
            len(event.runs),
            self._state.log_time_ms,
        )
        numbers = [run.partition for run in event.runs]
        if self._state.frozen_states:
            self._state.keep_partitions(numbers)
        partitions = self._partitions
        for run in event.runs:
            partitions[run.partition].fold_run(run, number)
        self._touched.update(numbers)
        if event.producers:
            self._fold_producer_batches(event)

    def _fold_producer_batches(self, event: ev.WalCommitted) -> None:
        append_times = {
            run.partition: run.max_timestamp if run.flags & ev.RUN_LOG_APPEND_TIME else -1
            for run in event.runs
        }
        for batch in event.producers:
            self._partitions[batch.partition].fold_producer(
                batch, append_times[batch.partition], self._state.log_time_ms
            )

    def fold_wal_abandoned(self, event: ev.WalAbandoned) -> None:
        """Note that an object will never be committed."""
        self._objects.fold_abandoned(
            WalName(event.incarnation, event.counter), self._state.log_time_ms
        )

    def fold_log_starts_moved(self, event: ev.LogStartsMoved) -> None:
        """Drop the runs below a log start."""
        self._state.keep_partitions(number for number, _ in event.moves)
        for number, offset in event.moves:
            self._touched.add(number)
            for row in self._partitions[number].fold_log_start(offset):
                if not row.is_marker:
                    self._objects.release(row.object_number, self._state.log_time_ms)

    def fold_segments_published(self, event: ev.SegmentsPublished) -> None:
        """Replace runs by the segments that they were merged into."""
        self._state.keep_partitions(each.partition for each in event.partitions)
        for each in event.partitions:
            partition = self._partitions[each.partition]
            parents = partition.runs_between(each.base_offset, each.next_offset)
            # A merge does not make records younger. Records without time stamps age from the
            # segment's time.
            committed_at_ms = max(map(self._state.committed_at_ms, parents))
            # If all runs are markers, the flag is not set: gateways that do not know the flag fold
            # such segments, too.
            walked = [each.flags & ev.RUN_WALKED for each in parents if not each.is_marker]
            flags = ev.RUN_SEGMENT | (ev.RUN_WALKED if walked and all(walked) else 0)
            rows = [
                self._segment_row(event.incarnation, partition, new, committed_at_ms, flags)
                for new in each.segments
            ]
            partition.fold_segments(each.base_offset, each.next_offset, rows)
            self._supersede(parents)

    def fold_partitions_cleaned(self, event: ev.PartitionsCleaned) -> None:
        """Note the end of a round of compaction."""
        self._state.keep_partitions(each.partition for each in event.partitions)
        for each in event.partitions:
            partition = self._partitions[each.partition]
            partition.fold_cleaning(each.end_offset, self._state.log_time_ms, each.retention_ms)

    def fold_skipped(self, event: ev.RunsSkipped) -> None:
        """Remove unreadable runs, which leaves a hole; if the runs are kept, their objects stay."""
        keeps = self._state.metadata_version >= KEPT_SKIPS
        self._state.keep_partitions(each.partition for each in event.stretches)
        for each in event.stretches:
            self._touched.add(each.partition)
            partition = self._partitions[each.partition]
            rows = partition.fold_skipped(each.base_offset, each.next_offset, keeps=keeps)
            if not keeps:
                self._supersede(rows)

    def fold_skips_ended(self, event: ev.SkipsEnded) -> None:
        """Put kept runs back, or give them up."""
        self._state.keep_partitions(each.partition for each in event.stretches)
        for each in event.stretches:
            self._touched.add(each.partition)
            partition = self._partitions[each.partition]
            if event.are_back:
                partition.fold_brought_back(each.base_offset, each.next_offset)
            else:
                self._supersede(partition.fold_given_up(each.base_offset, each.next_offset))

    def _supersede(self, rows: Iterable[RunRow]) -> None:
        """Release objects that a log restored from an older copy may still need."""
        for row in rows:
            if not row.is_marker:
                self._objects.supersede(row.object_number, self._state.log_time_ms)

    def _segment_row(
        self,
        incarnation: int,
        partition: Partition,
        new: ev.Segment,
        committed_at_ms: int,
        flags: int,
    ) -> RunRow:
        name = SegmentName(
            incarnation, new.attempt, partition.topic_id, partition.index, new.base_offset
        )
        return RunRow(
            new.base_offset,
            new.next_offset,
            self._objects.fold_segment(name, partition.number, new.size_bytes, committed_at_ms),
            new.position,
            new.length,
            new.max_timestamp,
            new.check,
            flags,
        )
