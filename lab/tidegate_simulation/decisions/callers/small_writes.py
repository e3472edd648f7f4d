"""Writers whose objects travel in the metadata log, and gateways that move such objects."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate_coordination.events.cluster import Run
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome
from tidegate_coordination.rules.records.inlining import CommitInlined, MoveInlined, Stretch
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.runs import RunRow

from ..decider import Decider
from .known import Known
from .records import BATCH_BYTES, RecordCallers


class SmallWriteCallers(RecordCallers):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = ((self.inline, 8), (self.move, 4))

    def inline(self, decider: Decider) -> None:
        """Commit a small object with batches without producers."""
        if not self._known.topics:
            return
        count = self._rng.randint(1, 3)
        batches = [self._batch(None, self._known.place(), BATCH_BYTES * at) for at in range(count)]
        name = self._known.new_object(decider.incarnation)
        body = bytes(BATCH_BYTES * count)
        proposal = CommitInlined(name, batches, frozenset(), is_walked=True, body=body)

        def judged(outcomes: list[BatchOutcome] | None, is_told: bool) -> None:
            for batch, outcome in zip(batches, outcomes or (), strict=outcomes is not None):
                self._judge(None, batch, outcome, is_told=is_told)

        self._world.ask(decider, proposal, judged)

    def move(self, decider: Decider) -> None:
        """Move a run of an inlined object, as a replica that may be stale shows it."""
        found = list(_inlined_rows(decider.state))
        if not found:
            return
        number, row = self._rng.choice(found)
        records = row.next_offset - row.base_offset
        run = Run(number, 36, 20, row.base_offset, records, row.max_timestamp, 7, row.flags)
        name = self._known.new_object(decider.incarnation)
        stretch = Stretch(number, (row,), (run,))
        self._world.ask(decider, MoveInlined(name, 120, (stretch,)))


def _inlined_rows(state: ClusterState) -> Iterator[tuple[int, RunRow]]:
    for number, partition in state.partitions.items():
        for row in partition.rows():
            if not row.is_marker and row.object_number in state.objects.inlined:
                yield number, row
