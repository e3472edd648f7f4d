"""Live runs tile each partition, and its offsets rise: invariants 1 and 2 of the cluster state.

Only a damaged range may be declared lost.  It leaves a hole, which does not count as a gap.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import links as kev
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow

from ..plans.losses import Holes, Hurt

Complain = Callable[[str, str], None]


class TilingWatch:
    """See the module's head.

    Args:
      state: the extra replica; its owner folds the entries.
      broken: called with the number of an invariant, and how it is broken.
      complain: called with the kind and the text of another violation.
      hurt: knows what the store lost.
      on_lost: called with a partition and a damaged range that a repair declares lost.
      on_back: called with a partition and such a range once it is brought back.
    """

    def __init__(
        self,
        state: ClusterState,
        broken: Callable[[int, str], None],
        complain: Complain,
        *,
        hurt: Hurt,
        on_lost: Callable[[Partition, int, int], None],
        on_back: Callable[[Partition, int, int], None],
    ) -> None:
        self._state = state
        self._broken = broken
        self._complain = complain
        self._hurt = hurt
        self._on_lost = on_lost
        self._on_back = on_back
        self._holes = Holes()
        self._given_up: list[tuple[int, int, int]] = []
        self._back: list[tuple[int, int, int]] = []
        self._deleted_to: dict[int, int] = {}
        self._marks: dict[int, tuple[int, int]] = {}

    def check(self, partition: Partition, *, whole: bool) -> None:
        """1: live runs and lost ranges tile [log start, next offset)."""
        runs = partition.runs
        where = f"partition {partition.number}"
        if not len(runs):
            if not self._is_next(partition, partition.log_start, partition.next_offset):
                self._broken(1, f"{where}: nothing holds {partition.log_start} and on")
            return
        first, last = runs[0], runs[len(runs) - 1]
        start = partition.log_start
        begins = start >= first.base_offset or self._is_next(partition, start, first.base_offset)
        if not begins or start >= first.next_offset:
            self._broken(1, f"{where}: {first} does not hold log start {partition.log_start}")
        if not self._is_next(partition, last.next_offset, partition.next_offset):
            self._broken(1, f"{where}: {last} is not the end, {partition.next_offset}")
        for at in range(1 if whole else max(1, len(runs) - 2), len(runs)):
            if not self._is_next(partition, runs[at - 1].next_offset, runs[at].base_offset):
                self._broken(1, f"{where}: {runs[at]} after {runs[at - 1]}")

    def rising(self, partition: Partition) -> None:
        """2: log start and next offset rise."""
        mark = (partition.log_start, partition.next_offset)
        before = self._marks.get(partition.number, (0, 0))
        if mark[0] < before[0] or mark[1] < before[1] or mark[0] > mark[1]:
            self._broken(2, f"partition {partition.number}: {before} became {mark}")
        self._marks[partition.number] = mark

    def skipped(self, stretch: ev.SkippedStretch) -> None:
        """Declare the live runs of a range lost, before the entry is folded."""
        partition = self._state.partitions.get(stretch.partition)
        runs = partition.runs if partition is not None else ()
        for row in [runs[at] for at in range(len(runs))]:
            is_in = stretch.base_offset <= row.base_offset < stretch.next_offset
            if partition is not None and is_in:
                self._give_up(partition, row)

    def cut(self, event: ev.LogStartsMoved) -> None:
        """Record up to which offset records are deleted, because they must not come back."""
        for number, offset in event.moves:
            self._deleted_to[number] = max(self._deleted_to.get(number, 0), offset)

    def ended(self, event: ev.SkipsEnded) -> None:
        """Check that only readable runs are brought back, before the entry is folded."""
        for each in event.stretches if event.are_back else ():
            partition = self._state.partitions.get(each.partition)
            for row in (partition.kept or ()) if partition is not None else ():
                is_in = each.base_offset <= row.base_offset < each.next_offset
                if partition is None or not is_in:
                    continue
                self._back.append((each.partition, row.base_offset, row.next_offset))
                if self._hurt.is_hurt(partition, row):
                    text = f"partition {partition.number}: {row} cannot be read"
                    self._complain("brought back too early", text)

    def placed(self, event: kev.MirrorsPlaced) -> None:
        """Record holes: the source of a mirrored partition has no records up to a later end."""
        for place in event.places:
            partition = self._state.partitions.get(place.partition)
            if partition is not None and partition.next_offset < place.next_offset:
                self._holes.add(place.partition, partition.next_offset, place.next_offset)

    def after_skips(self) -> bool:
        """1: after a skip, the log start has moved only over lost ranges.

        Return whether ranges were skipped, or came back.
        """
        for number, base_offset, next_offset in self._given_up:
            self._holes.add(number, base_offset, next_offset)
        for number, base_offset, next_offset in self._given_up:
            partition = self._state.partitions[number]
            before = self._marks.get(number, (0, 0))[0]
            if not self._is_next(partition, before, partition.log_start):
                self._broken(1, f"{partition.number}: log start {before}, {partition.log_start}")
            self.check(partition, whole=True)
            self._on_lost(partition, base_offset, next_offset)
        self._after_back()
        is_any = bool(self._given_up or self._back)
        self._given_up.clear()
        self._back.clear()
        return is_any

    def _after_back(self) -> None:
        """1, and 2: the log start falls only to a range that comes back, and undoes no deletion."""
        for number, base_offset, next_offset in self._back:
            self._holes.remove(number, base_offset, next_offset)
        for number, base_offset, next_offset in self._back:
            partition = self._state.partitions[number]
            start, mark = partition.log_start, self._marks.get(number, (0, 0))
            if start < mark[0]:
                if start < self._deleted_to.get(number, 0):
                    self._broken(2, f"{number}: {start} was deleted, and is back")
                self._marks[number] = (start, mark[1])
            self.check(partition, whole=True)
            self._on_back(partition, base_offset, next_offset)

    def _give_up(self, partition: Partition, row: RunRow) -> None:
        if self._hurt.is_hurt(partition, row):
            self._given_up.append((partition.number, row.base_offset, row.next_offset))
        else:
            self._complain("skipped too much", f"partition {partition.number}: {row} can be read")

    def _is_next(self, partition: Partition, end: int, start: int) -> bool:
        """Return whether only lost offsets are missing in between."""
        return end == start or (end < start and self._holes.cover(partition.number, end, start))
