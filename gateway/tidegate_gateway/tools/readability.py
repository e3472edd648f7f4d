"""Checks which records in the cluster state can still be read.

The check reads each run as a fetch does, and verifies it.  A run counts as missing or damaged only
if two reads find this.  Between them the log is read to its end, since a merge may have moved the
records.  If the store does not answer, the run's problem is UNKNOWN.

The bytes of inlined objects are in the log (decision 49), not in the store.  Their runs are checked
in memory, and say nothing about the store.  If such a run cannot be read, its problem is UNKNOWN:
it must not be skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_storage.objects.corrupt import UnknownVersion
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
    object_exists,
)

from ..fetch.log_reader import LogReader
from ..fetch.prepared_runs import CorruptRun, prepare_run
from ..fetch.segment_rows import is_segment
from .object_sources import stored_object

WORKERS: Final = 8
ATTEMPTS: Final = 4
FIRST_RETRY_SECONDS: Final = 0.5
SECOND_LOOK_SECONDS: Final = 0.5
# How often the check reads the same offsets again because their runs were merged meanwhile.
MAX_CHANGES: Final = 10
# After this number of runs with an unknown result the check ends.
MAX_UNKNOWN: Final = 16
# If there are at least this many objects, a loss of more than nine tenths points to a wrong store.
FEW_OBJECTS: Final = 10


# The least number of readable runs that a proof reads again, if there are as many.
SAMPLE: Final = 32

Place: TypeAlias = tuple[int, RunRow]
"""A partition's number, and a run of it."""


class Problem(Enum):
    """The problem of a run."""

    MISSING = "missing"
    CORRUPT = "corrupt"
    UNKNOWN = "could not be determined"


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at a run.

    problem: found by reading the run.  is_listed, exists: whether LIST and HEAD find the object;
    None if the store did not answer.
    """

    problem: Problem | None
    is_listed: bool | None
    exists: bool | None


@dataclass(frozen=True, slots=True)
class BadRun:
    """A run that could not be read.

    partition: the partition's number; index: the partition's index in its topic.  lost: how many
    records are lost.
    """

    partition: int
    index: int
    row: RunRow
    object_key: str
    problem: Problem
    reason: str
    lost: int


@dataclass(slots=True)
class Found:
    """The result of a check.

    runs, bytes: the number of runs and bytes checked.  is_complete: whether all runs were checked.
    bad: the unreadable runs, in the order of offsets; unknown_count: how many of them have an
    unknown problem.  objects: numbers of the objects that hold the runs.  unsteady: how many runs
    could not be read at first, but a moment later.  sample: some of the runs that can be read, each
    with its partition's number.
    """

    runs: int = 0
    bytes: int = 0
    is_complete: bool = True
    bad: list[BadRun] = field(default_factory=list[BadRun])
    unknown_count: int = 0
    objects: set[int] = field(default_factory=set[int])
    unsteady: int = 0
    sample: list[Place] = field(default_factory=list[Place])
    _stride: int = 1
    _seen: int = 0

    def add_good(self, place: Place) -> None:
        """Note a run that can be read; put every n-th one into the sample.

        n doubles each time that the sample is full.
        """
        self._seen += 1
        if self._seen % self._stride:
            return
        self.sample.append(place)
        if len(self.sample) == 2 * SAMPLE:
            del self.sample[::2]
            self._stride *= 2

    def add(self, bad: Sequence[BadRun]) -> None:
        """Note runs that could not be read."""
        self.bad += bad
        self.unknown_count += sum(each.problem is Problem.UNKNOWN for each in bad)

    @property
    def unreadable(self) -> list[BadRun]:
        """The runs that are missing or corrupt."""
        return [each for each in self.bad if each.problem is not Problem.UNKNOWN]

    @property
    def unknown(self) -> list[BadRun]:
        """The runs whose problem is UNKNOWN."""
        return [each for each in self.bad if each.problem is Problem.UNKNOWN]

    @property
    def present(self) -> int:
        """The number of objects that exist, intact or damaged."""
        absent = {
            each.row.object_number for each in self.bad if each.problem is not Problem.CORRUPT
        }
        return len(self.objects - absent)

    @property
    def looks_like_the_wrong_store(self) -> bool:
        """Whether so few objects exist that the others are probably not lost, but in another store.

        The cluster's owner marker proves nothing here: a gateway may have written it to a wrong
        store.
        """
        count = len(self.objects)
        return count >= FEW_OBJECTS and self.present * 10 < count


class ReadabilityCheck:
    """Checks whole partitions.

    Args:
      reader: its cache must keep nothing, as reads from memory prove nothing about the store.
    """

    def __init__(self, coordinator: Coordinator, store: ObjectStore, reader: LogReader) -> None:
        self._coordinator = coordinator
        self._store = store
        self._reader = reader

    async def look(
        self, partitions: Sequence[int], on_progress: Callable[[int], None] | None = None
    ) -> Found:
        """Check all runs that these partitions hold now.

        partitions: their numbers.  on_progress: called with the size of each checked run.
        """
        found = Found()
        places = self._places(partitions)

        async def work() -> None:
            for number, row in places:
                if found.unknown_count >= MAX_UNKNOWN:
                    found.is_complete = False
                    return
                bad = await self._look_between(number, row.base_offset, row.next_offset, found)
                found.add(bad)
                if not row.is_marker and not self._is_inlined(row):
                    found.objects.add(row.object_number)
                    if not bad:
                        found.add_good((number, row))
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
        """Check one run again; return True if it cannot be read, or is no longer live.

        If it is no longer live, the rules will refuse to skip it.
        """
        partition = self._coordinator.state.partitions.get(bad.partition)
        if partition is None or not self._is_live(bad.partition, bad.row):
            return True
        problem, _ = await self.read_patiently(partition, bad.row)
        return problem in (Problem.MISSING, Problem.CORRUPT)

    def _places(self, partitions: Sequence[int]) -> Iterator[tuple[int, RunRow]]:
        """Yield the runs; each is looked up when the check reaches it."""
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

    async def _look_between(self, number: int, offset: int, end: int, found: Found) -> list[BadRun]:
        """Check the runs that now hold these offsets; merges may change the runs meanwhile."""
        bad: list[BadRun] = []
        changes = 0
        while (row := self._row_from(number, offset)) is not None and row.base_offset < end:
            partition = self._coordinator.state.partitions[number]
            problem, reason = await self._look_twice(partition, row, found)
            if problem is not None and not self._is_live(number, row) and changes < MAX_CHANGES:
                changes += 1
                continue
            if problem is not None:
                bad.append(self._bad(partition, row, problem, reason))
            offset = row.next_offset
        return bad

    def _bad(self, partition: Partition, row: RunRow, problem: Problem, reason: str) -> BadRun:
        lost = row.next_offset - max(row.base_offset, partition.log_start)
        key = self.key_of(row)
        return BadRun(partition.number, partition.index, row, key, problem, reason, lost)

    def _is_live(self, number: int, row: RunRow) -> bool:
        return self._row_from(number, row.base_offset) == row

    async def _look_twice(
        self, partition: Partition, row: RunRow, found: Found
    ) -> tuple[Problem | None, str]:
        """Return the run's problem, or None, and the reason.

        If the run is missing or damaged, the log is read to its end.  If it is still live then, it
        is read a second time.
        """
        if row.is_marker:
            return None, ""  # it is in no object
        first = await self.read_patiently(partition, row)
        if first[0] in (None, Problem.UNKNOWN):
            return first
        await self._coordinator.catch_up()
        if not self._is_live(partition.number, row):
            return first
        await trio.sleep(SECOND_LOOK_SECONDS)
        second = await self.read_patiently(partition, row)
        await self._coordinator.catch_up()
        found.unsteady += second[0] is None
        return second

    async def see(self, place: Place) -> Sight | None:
        """Look at a run once; None if it is no longer live, or not in the store yet."""
        number, row = place
        partition = self._coordinator.state.partitions.get(number)
        if partition is None or row.is_marker or not self._is_live(number, row):
            return None
        if self._is_inlined(row):
            return None
        problem, _ = await self.read_patiently(partition, row)
        key = self.key_of(row)
        if not key or not self._is_live(number, row):
            return None
        return Sight(problem, await self._is_listed(key), await self._exists(key))

    async def _is_listed(self, key: str) -> bool | None:
        try:
            await stored_object(self._store, key)
        except NoSuchObject:
            return False
        except (StoreUnavailable, StoreMisconfigured):
            return None
        return True

    async def _exists(self, key: str) -> bool | None:
        try:
            return await object_exists(self._store, key)
        except (StoreUnavailable, StoreMisconfigured):
            return None

    async def read_patiently(self, partition: Partition, row: RunRow) -> tuple[Problem | None, str]:
        """Read and verify a run, live or not; return its problem, or None, and the reason."""
        if self._is_inlined(row):
            return self._look_inside_log(partition, row)
        return await self._read_from_store(partition, row)

    async def _read_from_store(
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

    def _is_inlined(self, row: RunRow) -> bool:
        inlined = self._coordinator.state.objects.inlined
        return row.object_number in inlined and not row.is_marker

    def _look_inside_log(self, partition: Partition, row: RunRow) -> tuple[Problem | None, str]:
        """Verify a run of an inlined object, whose body the replica keeps in memory."""
        body = self._coordinator.state.objects.inlined.body(row.object_number)
        if body is None:
            return Problem.UNKNOWN, "its bytes are in the metadata log, and were not read from it"
        region = memoryview(bytearray(body[row.position : row.position + row.length]))
        try:
            prepare_run(region, row, partition, self.key_of(row))
        except CorruptRun as error:
            reason = f"offset {error.offset}: {error.reason}"
            return Problem.UNKNOWN, f"its bytes in the metadata log are damaged: {reason}"
        return None, ""

    async def _read(self, partition: Partition, row: RunRow) -> None:
        """Read and verify a run, or all chunks of a segment."""
        for part in await self._reader.parts(partition, row, row.base_offset):
            await self._reader.run_at(partition, part)

    async def _is_cut(self, row: RunRow) -> tuple[Problem, str] | None:
        """Return the problem if the object is truncated or missing; None if that is not the cause.

        A range read beyond the end of a truncated object fails in the same way as a read of a store
        that does not answer.  A WAL object only needs to be complete up to the run's end, since
        reading the run does not need the footer.
        """
        if self._is_collected(row):
            return _COLLECTED
        expected = row.position + row.length
        if is_segment(row):
            expected = self._coordinator.state.objects.size_bytes(row.object_number)
        try:
            size_bytes = (await stored_object(self._store, self.key_of(row))).size_bytes
        except NoSuchObject:
            return Problem.MISSING, "the object store does not hold it"
        except (StoreUnavailable, StoreMisconfigured):
            return None
        if size_bytes >= expected:
            return None
        return Problem.CORRUPT, f"it was cut: {size_bytes} bytes of {expected} are left"

    def _is_collected(self, row: RunRow) -> bool:
        """Return whether the state no longer names the object, so that it was deleted."""
        return self._coordinator.state.objects.name_or_none(row.object_number) is None

    def key_of(self, row: RunRow) -> str:
        """Return the key of a run's object; empty if no entry refers to it any more."""
        state = self._coordinator.state
        name = state.objects.name_or_none(row.object_number)
        return object_key(state, name) if name is not None else ""


_COLLECTED: Final = (Problem.MISSING, "no entry refers to the object any more")
