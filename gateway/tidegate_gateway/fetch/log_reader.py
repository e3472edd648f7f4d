"""Runs from memory or from the object store, each verified and prepared once.

One cache holds two kinds of entries.  The first kind are whole objects that this gateway wrote
(`adopt`); their runs are prepared at the first read.  The second kind are single runs, chunks and
segment indexes from the store.  So a gateway never fetches what it wrote itself, and concurrent
misses of a run share one GET.  Runs that lie close together in one object also share a GET, even if
they are of several partitions.  Parts of segments may be kept on local disk (segment_disk.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.state.records.objects import ObjectName, WalName
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_runtime.line_rates import STRANGERS_LINES
from tidegate_storage.disk.cache import DiskCache
from tidegate_storage.disk.cache_files import Place
from tidegate_storage.objects.corrupt import UnknownVersion
from tidegate_storage.objects.segment_format import HEADER_BYTES, SegmentIndex
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)

from ..cost.ledger import read_of, weights_of
from ..store_way.store_way import StoreWay
from .cached_object import CachedObject, inlined_object
from .fetch_plan import DEFAULT_SETTINGS, FetchSettings, Miss, ReadProblem, Run, RunKey
from .lending.object_asks import ObjectAsk
from .lending.object_reads import Got, ObjectReads
from .lending.zone_reads import ZoneReads
from .offsets_records import OffsetsRecords
from .prepared_runs import CorruptRun, FileRun, PreparedRun, marker_run
from .read_groups import MAX_WHOLE_BYTES, Group, end_of, groups_of
from .run_verifier import RunVerifier, tail_of
from .segment_disk import MAX_OPEN_FILES, PartKey, SegmentDisk
from .segment_rows import chunk_rows, comes_whole, is_chunk, is_segment
from .unreadable import UnreadableRuns

_log = structlog.get_logger("tidegate.fetch", STRANGERS_LINES)
_TAIL_RUNS = 2
Loaded: TypeAlias = dict[RunKey, Run | SegmentIndex | ReadProblem]


class LogReader:
    """Reads the runs that the cluster state names.

    Args:
      cache: has CachedObject by WalName, and PreparedRun, FileRun and SegmentIndex by PartKey.
      disk: None for no disk cache.
      zone: the other gateways of the zone; None to read from the store only.
      way: notes that reads of the store failed.

    failed_reads, and the counters of reads and verifier, are for metrics.  unreadable: counts the
    records that a fetch could not get.  offsets_records: makes the records of `__consumer_offsets`,
    which are in no object.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: ObjectStore,
        cache: RangeCache[object],
        *,
        settings: FetchSettings = DEFAULT_SETTINGS,
        disk: DiskCache | None = None,
        max_open_files: int = MAX_OPEN_FILES,
        zone: ZoneReads | None = None,
        way: StoreWay | None = None,
    ) -> None:
        self.way: Final = way or StoreWay()
        self._coordinator = coordinator
        self._cache = cache
        self._settings = settings
        self._disk = SegmentDisk(disk, cache, max_open_files=max_open_files)
        self.reads: Final = ObjectReads(store, settings.concurrent_reads, zone)
        self.verifier: Final = RunVerifier()
        self.failed_reads = 0
        self.unreadable: Final = UnreadableRuns(coordinator.state)
        self.offsets_records: Final = OffsetsRecords(coordinator.state.offsets_topic.by_number)

    def adopt(self, name: WalName, key: str, body: bytearray) -> None:
        """Serve an object from memory.  From this call on, the body belongs to the reader.

        The caller has stored the object.  The commit, which wakes waiting fetches, comes later.
        """
        self._cache.put(name, CachedObject(key, body), len(body), hot=True)

    def ready(self, partition: Partition, row: RunRow) -> Run | None:
        """Return a run that can be sent at once."""
        if row.is_marker:
            return marker_run(partition, row)
        name = self._name(row)
        cached = self._cache.get_nowait(name)
        if cached is None and self._coordinator.state.objects.inlined.size_bytes:
            cached = inlined_object(self._coordinator.state, self._cache, row)
        if isinstance(cached, CachedObject):
            return cached.prepared.get(row.position) or self._prepare_own(
                name, cached, partition, row
            )
        key = PartKey(name, row.position)
        run = self._cache.get_nowait(key, promote=False)
        if isinstance(run, FileRun):
            return run if self._disk.is_ready(key, run) else None
        return run if isinstance(run, PreparedRun) else self._at_hand(key, partition, row)

    def index_of(self, row: RunRow) -> SegmentIndex | None:
        """Return the index of a segment that is in memory."""
        index = self._cache.get_nowait(self._key(row), promote=False)
        return index if isinstance(index, SegmentIndex) else None

    def is_in_memory(self, row: RunRow) -> bool:
        """Return whether ready() or index_of() would return something; counts as no use."""
        if row.is_marker:
            return True
        name = self._name(row)
        is_cached = name in self._cache or PartKey(name, row.position) in self._cache
        return is_cached or row.object_number in self._coordinator.state.objects.inlined

    def spend(self, row: RunRow) -> None:
        """Let the cache evict this run before others, since no known reader needs it any more."""
        if not row.is_marker:
            self._cache.demote(self._key(row))

    async def parts(self, partition: Partition, row: RunRow, offset: int) -> list[RunRow]:
        """Return the chunks of a segment from an offset on; for any other run only its row.

        Raises:
          NoSuchObject, StoreUnavailable, CorruptRun: as run_at().
          UnknownVersion: a newer release wrote the object; the text names the object.
        """
        if not is_segment(row):
            return [row]
        return list(chunk_rows(row, await self._get_index(partition, row), offset))

    async def run_at(self, partition: Partition, row: RunRow) -> PreparedRun:
        """Return a run of the partition, or a chunk, for inspection.

        Raises:
          NoSuchObject: the store lacks it; the run may have moved, so look at the state again.
          StoreUnavailable: try again later.
          CorruptRun: the stored bytes differ from the committed ones.
        """
        run = self.ready(partition, row)
        if run is None:
            run = await self._get([(partition, row)], {})
        else:
            await trio.lowlevel.checkpoint()
        if isinstance(run, FileRun):
            run = await self._disk.chunk_in_memory(self._place(row), row)
            return run or await self._from_store([(partition, row)], {})
        return run

    async def load(self, misses: Sequence[Miss]) -> Loaded:
        """Load runs into memory, several at a time; each result is a run or a problem."""
        groups = deque(groups_of(misses, self._is_on_disk))
        loaded: Loaded = {}
        with trio.move_on_after(self._settings.read_deadline_seconds) as reading:
            if len(groups) == 1:
                await self._work(groups, loaded)
            else:
                async with trio.open_nursery() as nursery:
                    for _ in range(min(len(groups), self._settings.concurrent_reads)):
                        nursery.start_soon(self._work, groups, loaded)
        self.way.read_failed |= reading.cancelled_caught
        for miss in misses:
            for row in miss.rows:
                loaded.setdefault((row.object_number, row.position), ReadProblem.UNAVAILABLE)
        return loaded

    def rows_along(self, misses: Sequence[Miss], others: Sequence[Miss]) -> list[RunRow]:
        """Return the rows of `others` that the GETs of these misses can include."""
        asked = {(row.object_number, row.position) for miss in misses for row in miss.rows}
        return [
            row
            for group in groups_of([*misses, *others], self._is_on_disk)
            if any((row.object_number, row.position) in asked for _, row in group)
            for _, row in group
            if (row.object_number, row.position) not in asked
        ]

    async def _work(self, groups: deque[Group], loaded: Loaded) -> None:
        while groups:
            group = groups.popleft()
            try:
                await self._load_group(group, loaded)
            except NoSuchObject:
                _fill(group, loaded, ReadProblem.MISSING)
            except (StoreUnavailable, StoreMisconfigured, UnknownVersion) as error:
                # Fetches retry; meanwhile an operator can fix credentials or upgrade the gateway.
                self.failed_reads += 1
                self.way.read_failed |= not isinstance(error, UnknownVersion)
                _log.warning("stored records could not be read", error=str(error))
                _fill(group, loaded, ReadProblem.UNAVAILABLE)

    async def _load_group(self, group: Group, loaded: Loaded) -> None:
        """Load the runs of a group.  The index of a segment is always alone in its group."""
        partition, row = group[0]
        if is_segment(row):
            try:
                index = await self._get_index(partition, row)
                loaded[row.object_number, row.position] = index
            except CorruptRun:
                _fill(group, loaded, ReadProblem.CORRUPT)
        else:
            await self._load_runs(group, loaded)

    async def _load_runs(self, group: Group, loaded: Loaded) -> None:
        """Load the runs of a group, usually all with one GET.

        Runs that another fetch is loading come last, so that the other runs load meanwhile.
        """
        coming = [self._cache.is_coming(self._key(row)) for _, row in group]
        first = coming.index(False) if False in coming else 0
        for at in (*range(first, len(group)), *range(first)):
            row = group[at][1]
            key = (row.object_number, row.position)
            if key not in loaded:
                try:
                    loaded[key] = await self._get(group[at:], loaded)
                except CorruptRun:
                    loaded[key] = ReadProblem.CORRUPT

    async def _get(self, group: Group, loaded: Loaded) -> Run:
        """Return the first run of a group; a GET for it loads the others, too."""
        partition, row = group[0]
        key = self._key(row)
        group = self._without_what_comes(group)

        async def load() -> tuple[object, int]:
            run = await self._disk.chunk(key, self._place(row), row)
            run = run or await self._from_store(group, loaded)
            return run, run.size_bytes

        hot, along = _is_tail(partition, row), [self._key(each) for _, each in group[1:]]
        run = await self._cache.get(key, load, hot=hot, promote=False, along=along)
        assert isinstance(run, PreparedRun | FileRun)
        return run

    def _without_what_comes(self, group: Group) -> Group:
        """Return a group without the runs at its end that are in memory or being loaded."""
        last = len(group) - 1
        while last and self._is_here_or_comes(self._key(group[last][1])):
            last -= 1
        return group[: last + 1]

    def _is_here_or_comes(self, key: PartKey) -> bool:
        return key in self._cache or self._cache.is_coming(key)

    async def _from_store(self, group: Group, loaded: Loaded) -> PreparedRun:
        """Read a group in one GET; return its first run, and keep the others."""
        partition, row = group[0]
        name = self._name(row)
        ask = self._ask(row, row.position, end_of(group[-1][1]))
        with read_of(weights_of((each.topic_id, one.length) for each, one in group)):
            first = got = await self.reads.read(name, ask)
            self._keep(group[1:], got, loaded)
            left = got.rereads
            while (
                run := self.verifier.prepare_copy(got, row, partition, may_fail=left > 0)
            ) is None:
                left -= 1
                got = await self.reads.read_store(self._ask(row, row.position, end_of(row)))
        self.reads.found_good(first, got)
        self._keep_on_disk(partition, row, run)
        return run

    async def _get_index(self, partition: Partition, row: RunRow) -> SegmentIndex:
        """Return the index of a segment.

        Raises:
          NoSuchObject, StoreUnavailable: as run_at().
          CorruptRun: the bytes differ from the published index.
          UnknownVersion: as parts().
        """

        async def load() -> tuple[object, int]:
            index = await self._disk.index(self._place(row), row, partition)
            index = index or await self._index_from_store(partition, row)
            return index, index.size_bytes

        index = await self._cache.get(self._key(row), load)
        assert isinstance(index, SegmentIndex)
        return index

    async def _index_from_store(self, partition: Partition, row: RunRow) -> SegmentIndex:
        """Read the index of a segment; for a small segment the same GET brings the whole object."""
        name = self._name(row)
        size_bytes = self._coordinator.state.objects.size_bytes(row.object_number)
        is_wanted_whole = comes_whole(row) or size_bytes <= self._most_whole_bytes
        start = 0 if is_wanted_whole and not self._has_chunks_on_disk(name) else row.position
        with read_of({partition.topic_id: 1}):
            first = got = await self.reads.read(name, self._ask(row, start, size_bytes))
            left = got.rereads
            while (
                index := self.verifier.read_index(got, row, partition, may_fail=left > 0)
            ) is None:
                left -= 1
                got = await self.reads.read_store(self._ask(row, row.position, size_bytes))
        self.reads.found_good(first, got)
        self._disk.keep_index(self._place(row), bytes(tail_of(got, row)))
        if got.ask.start < row.position:
            chunks = chunk_rows(row, index, row.base_offset)
            absent = [each for each in chunks if not self._is_here_or_comes(self._key(each))]
            self._keep([(partition, each) for each in absent], got, {})
        return index

    def _has_chunks_on_disk(self, name: ObjectName) -> bool:
        """Return whether the first chunk is on disk; the other chunks come with it or later."""
        return self._disk.holds(Place(self._object_key(name), HEADER_BYTES))

    @property
    def _most_whole_bytes(self) -> int:
        """Return the size up to which a segment is read whole; limits of fetches ignore it."""
        return min(MAX_WHOLE_BYTES, self._cache.max_bytes // 8)

    def _ask(self, row: RunRow, start: int, end: int) -> ObjectAsk:
        object_key = self._object_key(self._name(row))
        size_bytes = self._coordinator.state.objects.size_bytes(row.object_number)
        return ObjectAsk(object_key, start, end, size_bytes)

    def _keep(self, group: Group, got: Got, loaded: Loaded) -> None:
        """Prepare the runs that one read returned.

        A damaged run is skipped, and later read again alone.  It does not affect the other runs.
        """
        for partition, row in group:
            key = self._key(row)
            run = self.verifier.prepare_copy(got, row, partition, may_fail=True)
            if run is not None:
                loaded[row.object_number, row.position] = run
                self._cache.put(key, run, run.size_bytes, hot=_is_tail(partition, row))
                self._keep_on_disk(partition, row, run)

    def _at_hand(self, key: PartKey, partition: Partition, row: RunRow) -> PreparedRun | None:
        """Prepare a run from a block that was read for the zone, if the block is in memory.

        Without this, the partition would wait for a read, and fall behind the object's other
        partitions.  Then blocks that were read ahead would have to stay in memory for longer.
        """
        if self._cache.is_coming(key):
            return None
        got = self.reads.at_hand(self._ask(row, row.position, end_of(row)))
        if got is None:
            return None
        loaded: Loaded = {}
        self._keep([(partition, row)], got, loaded)
        run = loaded.get((row.object_number, row.position))
        return run if isinstance(run, PreparedRun) else None

    def _prepare_own(
        self, name: ObjectName, cached: CachedObject, partition: Partition, row: RunRow
    ) -> PreparedRun | None:
        """Prepare a run of an own object; drop the object if its memory is damaged."""
        run = self.verifier.prepare_own(cached, partition, row)
        if run is None:
            self._cache.evict(name)
        return run

    def _keep_on_disk(self, partition: Partition, row: RunRow, run: PreparedRun) -> None:
        is_hot = _is_tail(partition, row)
        self._disk.keep_chunk(self._key(row), self._place(row), row, run, hot=is_hot)

    def _is_on_disk(self, row: RunRow) -> bool:
        try:
            return is_chunk(row) and self._disk.is_on and self._disk.holds(self._place(row))
        except NoSuchObject:
            return False

    def _key(self, row: RunRow) -> PartKey:
        return PartKey(self._name(row), row.position)

    def _place(self, row: RunRow) -> Place:
        return Place(self._object_key(self._name(row)), row.position)

    def _name(self, row: RunRow) -> ObjectName:
        try:
            return self._coordinator.state.objects.name(row.object_number)
        except KeyError:
            raise NoSuchObject(f"object {row.object_number} no longer exists") from None

    def _object_key(self, name: ObjectName) -> str:
        return object_key(self._coordinator.state, name)


def _fill(group: Group, loaded: Loaded, problem: ReadProblem) -> None:
    for _, row in group:
        loaded.setdefault((row.object_number, row.position), problem)


def _is_tail(partition: Partition, row: RunRow) -> bool:
    """Return whether a run is so near the log's end that other consumers will soon ask for it."""
    if is_chunk(row):
        return row.next_offset == partition.next_offset
    runs = partition.runs
    return len(runs) <= _TAIL_RUNS or row.base_offset >= runs[len(runs) - _TAIL_RUNS].base_offset
