"""The part of a trial for runs and objects; see events.py.

A busy cluster commits thousands of runs a second, so the check of a run must cost a fraction of its
fold.  It makes a text only if it refuses.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from ...events import cluster as ev
from ...events import links as kev
from ...events.metadata_versions import FEATURE_NAME, WIDE_NUMBERS
from ..broken import NumbersRunOut, StateBroken, expect
from ..columns import MAX_INT64, MAX_OBJECTS, MAX_UINT32, check_producer_columns, check_run_columns
from ..records.cleanings import cleaned_to
from ..records.objects import WalName, WalStatus
from ..records.partitions import Partition
from ..tables import StateTables
from ..topics import Topic

# The most WAL ids that may lie between the highest settled id and a new one, as each is remembered.
MAX_AHEAD: Final = 1 << 24
# An offset at which no run can begin.
_NOWHERE: Final = -1

_Stretches = defaultdict[int, list[tuple[int, int]]]


class RunTrial:
    """The checks of events about runs and objects."""

    def __init__(self, state: StateTables) -> None:
        self._state: Final = state
        self._next_offsets: Final[dict[int, int]] = {}
        self._log_starts: Final[dict[int, int]] = {}
        self._settled: Final[set[WalName]] = set()
        self._collected: Final[set[int]] = set()
        self._replaced: Final[_Stretches] = defaultdict(list)
        self._cleaned: Final[dict[int, int]] = {}
        self._skipped: Final[set[int]] = set()
        self._gone: Final[set[int]] = set()
        self._objects = 0
        self.newest: ev.WalCommitted | None = None
        """The event that adds the newest object, if it is a WAL object."""
        self._is_wide: Final = state.metadata_version >= WIDE_NUMBERS

    def wal_committed(self, event: ev.WalCommitted) -> None:
        """Check that each run begins where its partition ends, and fits in its columns."""
        self.settle(WalName(event.incarnation, event.counter))
        self.newest = event
        if not 0 <= event.size_bytes <= MAX_UINT32:
            raise StateBroken(f"an object of {event.size_bytes} bytes")
        ends, partitions = self._next_offsets, self._state.partitions
        for run in event.runs:
            check_run_columns(
                run.position,
                run.length,
                run.max_timestamp,
                run.check,
                run.flags,
            )
            number, base_offset = run.partition, run.base_offset
            end = ends.get(number)
            if end is None:
                end = partitions[number].next_offset
            following = base_offset + run.record_count
            # Each batch states its own number of records, so the sum of a run may exceed 32 bits.
            if base_offset != end or not 0 <= end <= following <= MAX_INT64:
                raise StateBroken(f"partition {number}: run at {base_offset}, next is {end}")
            ends[number] = following
        if event.producers:
            self._producer_batches(event)

    def _producer_batches(self, event: ev.WalCommitted) -> None:
        written = {run.partition for run in event.runs}
        for batch in event.producers:
            check_producer_columns(
                batch.producer_id,
                batch.producer_epoch,
                batch.first_sequence,
                batch.last_sequence,
                batch.base_offset,
            )
            if batch.partition not in written:
                raise StateBroken(f"partition {batch.partition}: a producer's batch without a run")

    def marker(self, number: int, offset: int) -> None:
        """Check that a transaction's marker stands where its partition ends."""
        end = self.end_of(number)
        if offset != end or end >= MAX_INT64:
            raise StateBroken(f"partition {number}: marker at {offset}, next is {end}")
        self._next_offsets[number] = end + 1

    def mirrors_placed(self, event: kev.MirrorsPlaced) -> None:
        """Check that the bounds of a partition only rise, once in an entry."""
        for each in event.places:
            partition = self._partition(each.partition)
            fresh = each.partition not in self._log_starts and each.partition not in self._skipped
            end = self.end_of(each.partition)
            in_order = partition.log_start <= each.log_start <= each.next_offset
            expect(fresh and in_order and end <= each.next_offset, f"placed {each}, end {end}")
            self._log_starts[each.partition] = each.log_start
            self._next_offsets[each.partition] = each.next_offset

    def mirrored(self, event: kev.RunsMirrored) -> None:
        """Check that the partitions exist, and that the numbers fit their columns."""
        for step in event.steps:
            self._partition(step.partition)
            check_producer_columns(step.producer_id, step.producer_epoch, 0, 0, step.offset)
            expect(step.kind in (kev.STEP_BEGAN, kev.STEP_ABORTED, kev.STEP_COMMITTED), f"{step}")
        for began in event.epochs:
            self._partition(began.partition)
            expect(0 <= began.epoch < 1 << 31 and began.offset >= 0, f"{began}")

    def end_of(self, number: int) -> int:
        """Return where a partition ends after the events so far."""
        end = self._next_offsets.get(number)
        return self._state.partitions[number].next_offset if end is None else end

    def expect_partition(self, number: int) -> None:
        """Check that there is such a partition."""
        self._partition(number)

    def is_gone(self, number: int) -> bool:
        """Return whether an earlier event of the entry deletes the partition."""
        return number in self._gone

    def topic_deleted(self, topic: Topic) -> None:
        """No later event of the entry may change its partitions."""
        self._gone.update(topic.partition_numbers)
        self._next_offsets.update(dict.fromkeys(topic.partition_numbers, _NOWHERE))

    def _partition(self, number: int) -> Partition:
        expect(number not in self._gone, f"partition {number} is deleted in the same entry")
        return self._state.partitions[number]

    def wal_abandoned(self, event: ev.WalAbandoned) -> None:
        """Check that a WAL id is settled once."""
        self.settle(WalName(event.incarnation, event.counter))

    def settle(self, name: WalName) -> None:
        """Check that a WAL id is new, and settled once."""
        objects, (incarnation, counter) = self._state.objects, name
        if name in self._settled or objects.wal_status(name) is not WalStatus.UNKNOWN:
            raise StateBroken(f"{name} is settled already")
        self._settled.add(name)
        if not 0 <= incarnation <= MAX_UINT32:
            raise StateBroken(f"incarnation {incarnation}")
        if not 0 <= counter <= (MAX_INT64 if self._is_wide else MAX_UINT32):
            raise NumbersRunOut(f"{name}: {self._has_run_out}")
        ahead = counter - objects.next_counter(incarnation)
        if ahead > MAX_AHEAD:
            raise StateBroken(f"{name} is {ahead} ahead of what is known")
        self._add_objects(1)

    @property
    def _has_run_out(self) -> str:
        if self._is_wide:
            return "its kind of numbers has run out"
        return f"its kind of numbers has run out: raise {FEATURE_NAME} to {WIDE_NUMBERS}"

    def _add_objects(self, count: int) -> None:
        self._objects += count
        self.newest = None
        following = self._state.objects.next_number + self._objects
        if following > (MAX_OBJECTS if self._is_wide else MAX_UINT32):
            raise NumbersRunOut(f"object {following}: {self._has_run_out}")

    def log_starts_moved(self, event: ev.LogStartsMoved) -> None:
        """Check that a log start only rises, to the partition's end at most."""
        for number, offset in event.moves:
            partition = self._partition(number)
            start = self._log_starts.get(number, partition.floor)
            end = self._next_offsets.get(number, partition.next_offset)
            fits = start <= offset <= end and number not in self._skipped
            expect(fits, f"partition {number}: log start {offset}")
            self._log_starts[number] = offset

    def objects_collected(self, event: ev.ObjectsCollected) -> None:
        """Check that only dead objects are removed, and each once."""
        for number in event.numbers:
            is_dead = number in self._state.objects.dead and number not in self._collected
            expect(is_dead, f"object {number} is not dead")
            self._collected.add(number)

    def segments_published(self, event: ev.SegmentsPublished) -> None:
        """Check that segments replace consecutive live runs."""
        expect(0 <= event.incarnation <= MAX_UINT32, f"incarnation {event.incarnation}")
        for each in event.partitions:
            self.replace(each.partition, each.base_offset, each.next_offset)
            at = each.base_offset
            for new in each.segments:
                is_next = new.base_offset == at and at < new.next_offset <= each.next_offset
                expect(is_next, f"partition {each.partition}: a segment {new} where {at} is next")
                expect(0 <= new.attempt <= MAX_UINT32, f"attempt {new.attempt}")
                at = new.next_offset
            expect(at == each.next_offset, f"partition {each.partition}: segments end at {at}")
            self._add_objects(len(each.segments))

    def runs_skipped(self, event: ev.RunsSkipped) -> None:
        """Check that only whole runs are skipped."""
        for each in event.stretches:
            self._skipped.add(each.partition)
            self.replace(each.partition, each.base_offset, each.next_offset)

    def skips_ended(self, event: ev.SkipsEnded) -> None:
        """Check that only kept runs are brought back, or given up."""
        for each in event.stretches:
            self._skipped.add(each.partition)
            self._partition(each.partition).kept_between(each.base_offset, each.next_offset)
            self._change_once(each.partition, each.base_offset, each.next_offset)

    def replace(self, number: int, base_offset: int, next_offset: int) -> None:
        """Check that live runs are exactly [base_offset, next_offset), and change once."""
        self._partition(number).runs_between(base_offset, next_offset)
        self._change_once(number, base_offset, next_offset)

    def _change_once(self, number: int, base_offset: int, next_offset: int) -> None:
        expect(number not in self._log_starts, f"partition {number}: its log start moves, too")
        others = self._replaced[number]
        apart = all(next_offset <= start or end <= base_offset for start, end in others)
        expect(apart, f"partition {number}: two changes of {base_offset} to {next_offset}")
        others.append((base_offset, next_offset))

    def partitions_cleaned(self, event: ev.PartitionsCleaned) -> None:
        """Check that each round of compaction reaches further than the last."""
        for each in event.partitions:
            number = each.partition
            partition = self._partition(number)
            last = self._cleaned.get(number, cleaned_to(partition.cleanings))
            end = self._next_offsets.get(number, partition.next_offset)
            expect(last < each.end_offset <= end, f"partition {number}: cleaned to {last}")
            self._cleaned[number] = each.end_offset
