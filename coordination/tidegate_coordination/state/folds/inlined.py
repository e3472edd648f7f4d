"""Folds of small writes, whose bytes are in the log until they are moved to the store."""

from __future__ import annotations

from itertools import chain
from typing import Final

from ...events import inlined as iev
from ...events.cluster import Run
from ..records.objects import WalName
from ..records.runs import RunRow
from ..tables import StateTables


class InlineFolds:
    """Folds the events about inlined objects, for ClusterState.apply()."""

    def __init__(self, state: StateTables) -> None:
        self._state: Final = state

    def fold_inlined(self, event: iev.BatchesInlined) -> None:
        """Keep the body of the object that the event before committed."""
        state = self._state
        name = WalName(event.incarnation, event.counter)
        state.objects.fold_inlined(name, state.position + 1, event.body)

    def fold_moved(self, event: iev.InlineMoved) -> None:
        """Replace runs of inlined objects by those of the object that holds their batches now."""
        state = self._state
        state.keep_partitions(each.partition for each in event.stretches)
        partitions = [state.partitions[each.partition] for each in event.stretches]
        parents = [
            partition.runs_between(each.base_offset, each.next_offset)
            for partition, each in zip(partitions, event.stretches, strict=True)
        ]
        # A move does not make records younger.
        number = state.objects.fold_committed(
            WalName(event.incarnation, event.counter),
            event.size_bytes,
            sum(len(each.runs) for each in event.stretches),
            max(state.committed_at_ms(row) for rows in parents for row in rows),
        )
        for partition, each in zip(partitions, event.stretches, strict=True):
            rows = [_row_of(run, number) for run in each.runs]
            partition.fold_segments(each.base_offset, each.next_offset, rows)
        for row in chain.from_iterable(parents):
            state.objects.release(row.object_number, state.log_time_ms)


def _row_of(run: Run, number: int) -> RunRow:
    following = run.base_offset + run.record_count
    place = (number, run.position, run.length, run.max_timestamp, run.check, run.flags)
    return RunRow(run.base_offset, following, *place)
