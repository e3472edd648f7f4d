"""Plans which records of the requested partitions an answer gets, within the limits.  Pure.

A pass looks at the partitions in the requested order, and takes runs that are in memory.  Runs and
segment indexes that are not in memory become misses.  The caller loads the misses, then makes a new
pass on the present state.  So no plan is based on an older state.

Limits are Kafka's: An answer has only whole batches.  It has the first batch of the first partition
with data even if this batch exceeds every limit (KIP-74).  Otherwise partition_max_bytes and
max_bytes hold.  A partition with records in memory does not wait for more of its runs, unless all
partitions together give too little.  A partition without records in memory is always loaded, so it
never starves while other partitions have records in memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_protocol.batches import HEADER_BYTES, empty_batch
from tidegate_storage.objects.segment_format import SegmentIndex
from tidegate_storage.stores.files.file_part import FilePart

from .offsets_records import OffsetsRecords
from .prepared_runs import FileRun, PreparedRun
from .segment_rows import IndexOf, bytes_to_load, is_segment, rows_from

MAX_LOAD_BYTES = 64 << 20
MAX_LOAD_RUNS = 256
# The most bytes of records of `__consumer_offsets` that one pass makes: some milliseconds of work.
MAX_MADE_BYTES = 128 << 10
# To send a smaller part from its file takes more time than to copy it.
MIN_FILE_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Limits of reading.

    max_bytes: of one reply (fetch.max.bytes). max_load_bytes, max_load_runs: the most that one
    fetch may load at once.  concurrent_reads: reads of the whole gateway.  min_file_bytes: smaller
    parts of files are copied, not sent from the file.
    """

    max_bytes: int = 57_671_680
    max_wait_ms: int = 60_000
    max_load_bytes: int = MAX_LOAD_BYTES
    max_load_runs: int = MAX_LOAD_RUNS
    concurrent_reads: int = 16
    read_deadline_seconds: float = 20.0
    min_file_bytes: int = MIN_FILE_BYTES


DEFAULT_SETTINGS = FetchSettings()


class ReadProblem(Enum):
    """Why a run cannot be served."""

    MISSING = "its object is gone"
    UNAVAILABLE = "it cannot be read now"
    CORRUPT = "its bytes are not those that were committed"


RunKey: TypeAlias = tuple[int, int]
"""Object number and position."""

Run: TypeAlias = PreparedRun | FileRun
Piece: TypeAlias = memoryview | FilePart
Known: TypeAlias = Mapping[RunKey, Run | SegmentIndex | ReadProblem]
Ready: TypeAlias = Callable[[Partition, RunRow], Run | None]


Unread: TypeAlias = tuple[Partition, RunRow, ReadProblem]
"""A wanted run, chunk or segment, and why it could not be read."""


@dataclass(slots=True)
class Miss:
    """Runs of one partition to be loaded, in offset order."""

    partition: Partition
    rows: list[RunRow]


@dataclass(slots=True)
class ReadPass:
    """One look over the partitions of a fetch.

    ready: returns a run that is in memory.  index_of: returns the index of a segment that is in
      memory.  known: the runs that were loaded for this fetch, or their problems.  remaining_bytes:
      what the reply may still hold.  bytes_read: the bytes of records so far.  read_to: the end
      offset of the last read().  behind: the first offset in each partition that this answer leaves
      to the next fetch.  indexes: the segment indexes that this pass used.  The list of aborted
      transactions needs them later, and by then the chunks of the answer may have evicted them from
      the cache.  unread: the runs with a problem.  offsets_records: makes the records of
      `__consumer_offsets`.  makes_bytes: how many bytes it may still make.  is_made_short: it could
      make more.
    """

    ready: Ready
    index_of: IndexOf
    known: Known
    remaining_bytes: int
    load_bytes: int = MAX_LOAD_BYTES
    load_runs: int = MAX_LOAD_RUNS
    bytes_read: int = 0
    read_to: int = 0
    offsets_records: OffsetsRecords | None = None
    makes_bytes: int = MAX_MADE_BYTES
    is_made_short: bool = False
    starved: list[Miss] = field(default_factory=list[Miss])
    unfinished: list[Miss] = field(default_factory=list[Miss])
    behind: list[tuple[Partition, int]] = field(default_factory=list[tuple[Partition, int]])
    unread: list[Unread] = field(default_factory=list[Unread])
    indexes: dict[RunKey, SegmentIndex] = field(default_factory=dict[RunKey, SegmentIndex])

    def read(
        self, partition: Partition, offset: int, end_offset: int, max_bytes: int
    ) -> list[Piece] | ReadProblem:
        """Return the batches below end_offset, from the batch that holds offset on."""
        pieces: list[Piece] = []
        self.read_to = offset
        limit = min(max_bytes, self.remaining_bytes)
        if offset >= end_offset or (limit <= 0 and self.bytes_read):
            return pieces
        for row in rows_from(partition, offset, self.index):
            base_offset = row.base_offset
            if base_offset >= end_offset:
                self.behind.append((partition, base_offset))
                self._get_to_the_end(partition, pieces, offset, end_offset, limit)
                break
            run = self._run(partition, row)
            if run is None:
                from_offset = max(offset, base_offset)
                where = self.unfinished if pieces else self.starved
                self._miss(partition, from_offset, limit, where)
                self.behind.append((partition, from_offset))
                break
            if not isinstance(run, ReadProblem) and run.end_offset <= offset:
                continue  # compaction has removed the records from this offset to the run's end
            piece = self._cut(run, offset, end_offset, limit)
            if isinstance(piece, ReadProblem):
                self.unread.append((partition, row, piece))
                return pieces or piece
            if piece is None:
                return pieces
            pieces.append(piece)
            self.read_to = row.next_offset
            size = len(piece)
            self.bytes_read += size
            self.remaining_bytes -= size
            limit -= size
            # After a cut run no other run may follow, even a small one: the answer would have a
            # gap.
            if limit <= 0 or _is_cut(run, offset, piece):
                self.behind.append((partition, row.next_offset))
                break
        else:
            self._get_to_the_end(partition, pieces, offset, end_offset, limit)
        return pieces

    def _get_to_the_end(
        self,
        partition: Partition,
        pieces: list[Piece],
        offset: int,
        end_offset: int,
        limit: int,
    ) -> None:
        """Take the reader to the end offset if no record is left before it.

        The records of `__consumer_offsets` are not stored anywhere, so they are made here.
        """
        self.read_to = end_offset
        if pieces or self._make(partition, pieces, offset, end_offset, limit):
            return
        epoch = partition.epoch_at(end_offset - 1)
        pieces.append(memoryview(empty_batch(offset, end_offset, epoch)))
        self.bytes_read += HEADER_BYTES

    def _make(
        self, partition: Partition, pieces: list[Piece], offset: int, end_offset: int, limit: int
    ) -> bool:
        """Make records; return whether there are any."""
        if self.offsets_records is None:
            return False
        made = self.offsets_records.make(
            partition,
            offset,
            end_offset,
            min(limit, self.makes_bytes),
            is_first=not self.bytes_read,
        )
        if made is None:
            return False
        size = len(made.batch)
        if size:
            pieces.append(memoryview(made.batch))
        self.read_to = made.next_offset
        self.bytes_read += size
        self.remaining_bytes -= size
        self.makes_bytes -= size
        self.is_made_short |= made.next_offset < end_offset
        return True

    @property
    def is_cut_short(self) -> bool:
        """Return whether there are further records that are not yet in memory, or not yet made."""
        return bool(self.starved or self.unfinished or self.is_made_short)

    def misses(self, min_bytes: int) -> list[Miss]:
        """Return the misses to load for min_bytes, and for records of each partition."""
        if self.bytes_read < min_bytes:
            return self.starved + self.unfinished
        return self.starved

    def index(self, row: RunRow) -> SegmentIndex | None:
        """Return the index of a segment if it is in memory, or was earlier in this pass."""
        key = (row.object_number, row.position)
        kept = self.indexes.get(key)
        if kept is not None:
            return kept
        known = self.known.get(key) if self.known else None
        found = known if isinstance(known, SegmentIndex) else self.index_of(row)
        if found is not None:
            self.indexes[key] = found
        return found

    def _run(self, partition: Partition, row: RunRow) -> Run | ReadProblem | None:
        if self.known and not row.is_marker:
            run = self.known.get((row.object_number, row.position))
            if run is not None:
                assert not isinstance(run, SegmentIndex), "a segment with a known index has chunks"
                return run
        return None if is_segment(row) else self.ready(partition, row)

    def _cut(
        self, run: Run | ReadProblem, offset: int, end_offset: int, limit: int
    ) -> Piece | ReadProblem | None:
        """Return whole batches of a run within the limit; None if not even one fits.

        While the pass has read nothing, the first batch is returned even above the limit.
        """
        if isinstance(run, ReadProblem):
            return run
        starts = run.starts
        first = bisect_right(run.base_offsets, offset) - 1 if offset > run.base_offsets[0] else 0
        stop = len(run.base_offsets)
        if end_offset < run.next_offset:
            stop = bisect_left(run.base_offsets, end_offset)
        start = starts[first]
        if starts[stop] - start > limit:
            stop = bisect_right(starts, start + limit) - 1
            if stop <= first:
                if self.bytes_read:
                    return None
                stop = first + 1
        return run.view[start : starts[stop]]

    def _miss(self, partition: Partition, offset: int, limit: int, where: list[Miss]) -> None:
        """Plan to load runs from the one that holds the offset on, as far as the limits go."""
        rows: list[RunRow] = []
        planned = 0
        for row in rows_from(partition, offset, self.index):
            if not self._may_load(planned, limit):
                break
            if self._run(partition, row) is None:
                rows.append(row)
                self.load_bytes -= bytes_to_load(row)
                self.load_runs -= 1
            planned += row.length
        self.remaining_bytes -= min(planned, limit)
        if rows:
            where.append(Miss(partition, rows))

    def _may_load(self, planned: int, limit: int) -> bool:
        nothing_yet = not (self.starved or self.unfinished or self.bytes_read or planned)
        return nothing_yet or (planned < limit and self.load_bytes > 0 and self.load_runs > 0)


def _is_cut(run: Run | ReadProblem, offset: int, piece: Piece) -> bool:
    """Return whether a piece that begins at the batch of an offset lacks the end of its run."""
    return not isinstance(run, ReadProblem) and (
        len(piece) < run.starts[-1] - run.starts[run.find(offset)]
    )
