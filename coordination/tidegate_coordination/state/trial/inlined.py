"""The part of a trial for small writes; see events.py."""

from __future__ import annotations

from typing import Final

from ...events import inlined as iev
from ..broken import expect
from ..columns import MAX_UINT32, check_run_columns
from ..records.objects import WalName
from ..tables import StateTables
from .runs import RunTrial


class InlineTrial:
    """The checks of events about inlined objects."""

    def __init__(self, state: StateTables, runs: RunTrial) -> None:
        self._state: Final = state
        self._runs: Final = runs

    def inlined(self, event: iev.BatchesInlined) -> None:
        """Check that the body is that of the newest object of the entry."""
        committed = self._runs.newest
        names = (event.incarnation, event.counter)
        expect(committed is not None, f"{names} is inlined, but no object comes before it")
        assert committed is not None
        expect((committed.incarnation, committed.counter) == names, f"{names} is another object")
        size_bytes = committed.size_bytes if committed.runs else 0
        expect(size_bytes == len(event.body), f"{names}: {len(event.body)} bytes")
        self._runs.newest = None

    def moved(self, event: iev.InlineMoved) -> None:
        """Check that runs of a new object take the place of live runs of inlined ones."""
        self._runs.settle(WalName(event.incarnation, event.counter))
        expect(0 <= event.size_bytes <= MAX_UINT32, f"an object of {event.size_bytes} bytes")
        expect(bool(event.stretches), "an object of no moved batch")
        for each in event.stretches:
            self._runs.replace(each.partition, each.base_offset, each.next_offset)
            self._expect_inlined(each)
            at = each.base_offset
            for run in each.runs:
                check_run_columns(run.position, run.length, run.max_timestamp, run.check, run.flags)
                is_next = run.base_offset == at and run.partition == each.partition
                expect(is_next and run.record_count > 0, f"a moved run {run} where {at} is next")
                at += run.record_count
            expect(at == each.next_offset, f"partition {each.partition}: moved runs end at {at}")

    def _expect_inlined(self, stretch: iev.MovedStretch) -> None:
        partition = self._state.partitions[stretch.partition]
        for row in partition.runs_between(stretch.base_offset, stretch.next_offset):
            is_inlined = not row.is_marker and row.object_number in self._state.objects.inlined
            expect(is_inlined, f"partition {stretch.partition}: {row} is not inlined")
