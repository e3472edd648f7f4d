"""The promises of answers about skipped runs: what is kept, what is gone, and what is back.

Live runs, kept ones and holes tile each partition from its floor to its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow

from .moment import Moment, Place
from .records import RecordPromises


class HolePromises:
    """See the module's head."""

    def __init__(self, moment: Moment, records: RecordPromises) -> None:
        self._moment: Final = moment
        self._records: Final = records
        self._gone: Final[defaultdict[Place, list[tuple[int, int]]]] = defaultdict(list)
        self._kept: Final[defaultdict[Place, dict[int, RunRow]]] = defaultdict(dict)

    def skipped(self, place: Place, runs: Sequence[RunRow], *, keeps: bool) -> None:
        """Record that runs are skipped.  keeps: whether they can be brought back."""
        partition = self._records.partitions.get(place)
        if partition is not None:
            partition.is_holed = True
        if keeps:
            self._kept[place].update((each.base_offset, each) for each in runs)
        else:
            self._give_up(place, runs)

    def ended(self, place: Place, runs: Sequence[RunRow], *, brings_back: bool) -> None:
        """Judge the end of a skip that was accepted."""
        partition = self._records.partitions.get(place)
        floor = partition.floor if partition is not None else 0
        for each in runs:
            is_kept = self._kept[place].pop(each.base_offset, None) == each
            if not is_kept and each.next_offset > floor:
                self._moment.complain(f"{each} of {place} was not kept, and its skip ends")
        if not brings_back:
            self._give_up(place, runs)

    def left_out(self, place: Place, start: int, end: int) -> None:
        """Record that a mirrored partition has no records from one offset up to another."""
        self._gone[place].append((start, end))

    def _give_up(self, place: Place, runs: Sequence[RunRow]) -> None:
        self._gone[place] += [(each.base_offset, each.next_offset) for each in runs]

    def check(self, partition: Partition) -> None:
        """Compare one partition with what was promised."""
        place = (partition.topic_id, partition.index)
        promised = self._records.partitions[place]
        if not self._are_gone(place, promised.floor, partition.floor):
            text = f"{place} has floor {partition.floor} instead of {promised.floor}"
            self._moment.complain(text)
        kept = self._kept[place]
        for base in [each for each, row in kept.items() if row.next_offset <= partition.floor]:
            del kept[base]
        # The state may still keep runs that end below the partition's floor.
        found = [row for row in partition.kept or () if row.next_offset > partition.floor]
        if found != [kept[each] for each in sorted(kept)]:
            self._moment.complain(f"{place} keeps {found}, and not {kept}")
        self._check_tiling(place, partition)

    def _check_tiling(self, place: Place, partition: Partition) -> None:
        end = partition.floor
        for row in partition.rows():
            if row.base_offset > end and not self._are_gone(place, end, row.base_offset):
                self._moment.complain(f"{place} has a gap at {end}, before {row}")
            if row.base_offset < end and end > partition.floor:
                self._moment.complain(f"{place} has an overlap at {end}, with {row}")
            end = row.next_offset
        if not self._are_gone(place, end, partition.next_offset):
            self._moment.complain(f"{place} ends at {partition.next_offset}, its runs at {end}")
        sizes = [partition.runs[at].length for at in range(len(partition.runs))]
        markers = sum(partition.runs[at].is_marker for at in range(len(partition.runs)))
        if not markers and partition.size_bytes != sum(sizes):
            self._moment.complain(f"{place} counts {partition.size_bytes} bytes of {sum(sizes)}")

    def _are_gone(self, place: Place, start: int, end: int) -> bool:
        """Return whether all offsets from start up to end are gone, and need no run."""
        at = start
        for base, following in sorted(self._gone[place]):
            if base <= at:
                at = max(at, following)
        return start == end or start < end <= at
