"""Which of the records that the cluster state names can still be read.

Each run is read as a fetch reads it, and verified.  Nothing is called missing or damaged that was
not found so twice, with the log read to its end in between: a merge may have moved the records.  A
store that does not answer is no proof of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.records.skips import Unreadable
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.objects.corrupt import UnknownVersion
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)

from ..fetch.log_reader import LogReader
from ..fetch.prepared_runs import CorruptRun
from ..fetch.segment_rows import is_segment
from .object_sources import stored_object

WORKERS: Final = 8
ATTEMPTS: Final = 4
FIRST_RETRY_SECONDS: Final = 0.5
SECOND_LOOK_SECONDS: Final = 0.5
# How often one place may be merged anew while it is looked at.
MAX_CHANGES: Final = 10
MAX_STRETCH_RUNS: Final = 500
# A store that does not answer for so many is not asked for the rest.
MAX_UNKNOWN: Final = 16
# Of fewer objects all may be lost; of so many hardly ever all but a tenth.
FEW_OBJECTS: Final = 10


class Problem(Enum):
    """What is wrong with a run."""

    MISSING = "missing"
    CORRUPT = "corrupt"
    UNKNOWN = "could not be determined"


@dataclass(frozen=True, slots=True)
class BadRun:
    """A run that was not read.  index: of the partition in its topic; lost: records of it."""

    partition: int
    index: int
    row: RunRow
    object_key: str
    problem: Problem
    reason: str
    lost: int


@dataclass(slots=True)
class Found:
    """What came of looking.

    runs, bytes: that were looked at.  bad: in the order of offsets.  is_complete: all runs were.
    unknown_count: of bad.  objects: numbers of those that hold the runs.
    """

    runs: int = 0
    bytes: int = 0
    is_complete: bool = True
    bad: list[BadRun] = field(default_factory=list[BadRun])
    unknown_count: int = 0
    objects: set[int] = field(default_factory=set[int])

    def add(self, bad: Sequence[BadRun]) -> None:
        """Take note of runs that were not read."""
        self.bad += bad
        self.unknown_count += sum(each.problem is Problem.UNKNOWN for each in bad)

    @property
    def unreadable(self) -> list[BadRun]:
        """Return those that are surely lost."""
        return [each for each in self.bad if each.problem is not Problem.UNKNOWN]

    @property
    def unknown(self) -> list[BadRun]:
        """Return those that nobody can tell of now."""
        return [each for each in self.bad if each.problem is Problem.UNKNOWN]

    @property
    def present(self) -> int:
        """Return how many of the objects are there, whole or damaged."""
        absent = {
            each.row.object_number for each in self.bad if each.problem is not Problem.CORRUPT
        }
        return len(self.objects - absent)

    @property
    def looks_like_the_wrong_store(self) -> bool:
        """Tell whether so little is there that it is rather elsewhere than lost.

        A marker of the cluster is no proof: a gateway leaves one wherever it was once started.
        """
        count = len(self.objects)
        return count >= FEW_OBJECTS and self.present * 10 < count


class ReadabilityCheck:
    """Looks at whole partitions.

    Args:
      reader: with a cache that keeps nothing: what is in memory says nothing of the store.
    """

    def __init__(self, coordinator: Coordinator, store: ObjectStore, reader: LogReader) -> None:
        self._coordinator = coordinator
        self._store = store
        self._reader = reader

    async def look(
        self, partitions: Sequence[int], on_progress: Callable[[int], None] | None = None
    ) -> Found:
        """Look at all runs that these partitions hold now, by their numbers.

        on_progress: called with the bytes of each run that was looked at.
        """
        found = Found()
        places = self._places(partitions)

        async def work() -> None:
            for number, row in places:
                if found.unknown_count >= MAX_UNKNOWN:
                    found.is_complete = False
                    return
                found.add(await self._look_between(number, row.base_offset, row.next_offset))
                found.objects.add(row.object_number)
                found.runs += 1
                found.bytes += row.length
                if on_progress is not None:
                    on_progress(row.length)

        async with trio.open_nursery() as nursery:
            for _ in range(WORKERS):
                nursery.start_soon(work)
        found.bad.sort(key=lambda each: (each.index, each.row.base_offset))
        return found

    async def is_unreadable(self, bad: BadRun) -> bool:
        """Look at one run again; also true of one that is live no more, which nobody can skip."""
        partition = self._coordinator.state.partitions.get(bad.partition)
        if partition is None or not self._is_live(bad.partition, bad.row):
            return True
        problem, _ = await self._look_patiently(partition, bad.row)
        return problem in (Problem.MISSING, Problem.CORRUPT)

    def _places(self, partitions: Sequence[int]) -> Iterator[tuple[int, RunRow]]:
        """Yield the runs as they are when their turn comes."""
        for number in partitions:
            partition = self._coordinator.state.partitions.get(number)
            end = partition.next_offset if partition is not None else 0
            offset = 0
            while (row := self._row_from(number, offset)) is not None and row.base_offset < end:
                yield number, row
                offset = row.next_offset

    def _row_from(self, number: int, offset: int) -> RunRow | None:
        partition = self._coordinator.state.partitions.get(number)
        if partition is None:
            return None
        at = partition.runs.find(offset)
        return partition.runs[at] if at < len(partition.runs) else None

    async def _look_between(self, number: int, offset: int, end: int) -> list[BadRun]:
        """Look at what holds these offsets by now: it may change meanwhile."""
        bad: list[BadRun] = []
        changes = 0
        while (row := self._row_from(number, offset)) is not None and row.base_offset < end:
            partition = self._coordinator.state.partitions[number]
            problem, reason = await self._look_twice(partition, row)
            if problem is not None and not self._is_live(number, row) and changes < MAX_CHANGES:
                changes += 1
                continue
            if problem is not None:
                bad.append(self._bad(partition, row, problem, reason))
            offset = row.next_offset
        return bad

    def _bad(self, partition: Partition, row: RunRow, problem: Problem, reason: str) -> BadRun:
        lost = row.next_offset - max(row.base_offset, partition.log_start)
        key = self._key(row)
        return BadRun(partition.number, partition.index, row, key, problem, reason, lost)

    def _is_live(self, number: int, row: RunRow) -> bool:
        return self._row_from(number, row.base_offset) == row

    async def _look_twice(self, partition: Partition, row: RunRow) -> tuple[Problem | None, str]:
        """Return what is wrong; None if nothing is, or nobody needs the run any more."""
        first = await self._look_patiently(partition, row)
        if first[0] in (None, Problem.UNKNOWN):
            return first
        await self._coordinator.catch_up()
        if not self._is_live(partition.number, row):
            return first
        await trio.sleep(SECOND_LOOK_SECONDS)
        second = await self._look_patiently(partition, row)
        await self._coordinator.catch_up()
        return second

    async def _look_patiently(
        self, partition: Partition, row: RunRow
    ) -> tuple[Problem | None, str]:
        delay = FIRST_RETRY_SECONDS
        for left in reversed(range(ATTEMPTS)):
            if self._is_collected(row):
                return _COLLECTED
            try:
                await self._read(partition, row)
            except NoSuchObject:
                return Problem.MISSING, "the object store does not hold it"
            except CorruptRun as error:
                return Problem.CORRUPT, f"offset {error.offset}: {error.reason}"
            except (StoreMisconfigured, UnknownVersion) as error:
                return Problem.UNKNOWN, str(error)
            except StoreUnavailable as error:
                if (cut := await self._is_cut(row)) is not None:
                    return cut
                if not left:
                    return Problem.UNKNOWN, str(error)
            else:
                return None, ""
            await trio.sleep(delay)
            delay *= 2
        raise AssertionError

    async def _read(self, partition: Partition, row: RunRow) -> None:
        """Read and verify a run, or all chunks of a segment."""
        for part in await self._reader.parts(partition, row, row.base_offset):
            await self._reader.run_at(partition, part)

    async def _is_cut(self, row: RunRow) -> tuple[Problem, str] | None:
        """Tell whether the object ends too soon: to a reader that looks like no answer at all.

        What a WAL object has behind the run, its footer even, is not needed to read it.
        """
        if self._is_collected(row):
            return _COLLECTED
        expected = row.position + row.length
        if is_segment(row):
            expected = self._coordinator.state.objects.size_bytes(row.object_number)
        try:
            size_bytes = (await stored_object(self._store, self._key(row))).size_bytes
        except NoSuchObject:
            return Problem.MISSING, "the object store does not hold it"
        except (StoreUnavailable, StoreMisconfigured):
            return None
        if size_bytes >= expected:
            return None
        return Problem.CORRUPT, f"it was cut: {size_bytes} bytes of {expected} are left"

    def _is_collected(self, row: RunRow) -> bool:
        """Tell whether nothing refers to the object any more, so that it was deleted."""
        return self._coordinator.state.objects.name_or_none(row.object_number) is None

    def _key(self, row: RunRow) -> str:
        state = self._coordinator.state
        name = state.objects.name_or_none(row.object_number)
        return object_key(state, name) if name is not None else ""


_COLLECTED: Final = (Problem.MISSING, "nothing refers to the object any more")


def stretches(bad: Sequence[BadRun]) -> list[list[BadRun]]:
    """Put neighbours together, to be skipped at once; `bad` is in the order of offsets."""
    found: list[list[BadRun]] = []
    for each in bad:
        if found and _follows(found[-1], each):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def _follows(stretch: list[BadRun], each: BadRun) -> bool:
    last = stretch[-1]
    return (
        len(stretch) < MAX_STRETCH_RUNS
        and last.partition == each.partition
        and last.row.next_offset == each.row.base_offset
    )


def proposed(stretch: Sequence[BadRun]) -> Unreadable:
    """Return what is to be skipped."""
    return Unreadable(stretch[0].partition, tuple(each.row for each in stretch))
