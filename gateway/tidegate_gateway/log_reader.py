"""Runs from memory or from the object store, each verified and prepared once.

One cache holds both kinds of things: whole objects that this gateway wrote (`adopt`), whose runs
are prepared when first read, and single runs fetched from the store.  So what was written here is
never fetched here, and concurrent misses of a run share one GET.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog
import trio

from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.state.objects import WalName
from tidegate_coordination.state.partitions import Partition
from tidegate_coordination.state.runs import RunRow
from tidegate_protocol.records import BatchHeader, read_header
from tidegate_storage.keys import wal_key
from tidegate_storage.object_store import NoSuchObject, ObjectStore, StoreUnavailable
from tidegate_storage.range_cache import RangeCache

from .fetch_plan import DEFAULT_SETTINGS, FetchSettings, Miss, ReadProblem, RunKey
from .prepared_runs import CorruptRun, PreparedRun, prepare_run

_log = structlog.get_logger("tidegate.fetch")

_TAIL_RUNS = 2
_MAX_GAP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CachedObject:
    """An object this gateway wrote.  prepared: its runs by position, as they are first read."""

    object_key: str
    body: bytearray
    prepared: dict[int, PreparedRun] = field(default_factory=dict[int, PreparedRun])


_Group: TypeAlias = tuple[Partition, list[RunRow]]
Loaded: TypeAlias = dict[RunKey, PreparedRun | ReadProblem]


class LogReader:
    """Reads the runs that the cluster state names.

    Args:
      cache: of CachedObject by WalName, and PreparedRun by (*WalName, position).

    store_reads, store_bytes, failed_reads, corrupt_runs: counters, for metrics.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: ObjectStore,
        cache: RangeCache[object],
        *,
        settings: FetchSettings = DEFAULT_SETTINGS,
    ) -> None:
        self._coordinator = coordinator
        self._store = store
        self._cache = cache
        self._settings = settings
        self._reads = trio.Semaphore(settings.concurrent_reads)
        self.store_reads = 0
        self.store_bytes = 0
        self.failed_reads = 0
        self.corrupt_runs = 0

    def adopt(self, name: WalName, body: bytearray) -> None:
        """Serve an object from memory.  The body belongs to the reader from here on.

        Call it when the object is stored, and before the commit wakes the waiting fetches.
        """
        self._cache.put(name, CachedObject(self._object_key(name), body), len(body), hot=True)

    def ready(self, partition: Partition, row: RunRow) -> PreparedRun | None:
        """Return a run that is in memory."""
        name = self._name(row)
        cached = self._cache.get_nowait(name)
        if isinstance(cached, CachedObject):
            return cached.prepared.get(row.position) or self._prepare_own(
                name, cached, partition, row
            )
        run = self._cache.get_nowait((*name, row.position))
        return run if isinstance(run, PreparedRun) else None

    async def run_at(self, partition: Partition, row: RunRow) -> PreparedRun:
        """Return a run of the partition, from the store if need be.

        Raises:
          NoSuchObject: look at the state again.
          StoreUnavailable: try again later.
          CorruptRun: see there.
        """
        run = self.ready(partition, row)
        if run is not None:
            await trio.lowlevel.checkpoint()
            return run
        return await self._get(partition, [row])

    async def read_batch_at(self, partition: Partition, offset: int) -> tuple[BatchHeader, bytes]:
        """Return the batch that holds an offset.

        Raises:
          LookupError: no batch holds it.
          NoSuchObject, StoreUnavailable, CorruptRun: as run_at.
        """
        runs = partition.runs
        if not len(runs) or not runs[0].base_offset <= offset < partition.next_offset:
            raise LookupError(f"partition {partition.number} has no offset {offset}")
        run = await self.run_at(partition, runs[runs.find(offset)])
        batch = bytes(run.batch(run.find(offset)))
        return read_header(batch), batch

    async def load(self, misses: Sequence[Miss]) -> Loaded:
        """Bring runs into memory, several at a time; each comes out as a run or a problem."""
        groups = deque(group for miss in misses for group in self._groups(miss))
        loaded: Loaded = {
            (row.object_number, row.position): ReadProblem.UNAVAILABLE
            for _, rows in groups
            for row in rows
        }
        with trio.move_on_after(self._settings.read_deadline_seconds):
            if len(groups) == 1:
                await self._work(groups, loaded)
            else:
                async with trio.open_nursery() as nursery:
                    for _ in range(min(len(groups), self._settings.concurrent_reads)):
                        nursery.start_soon(self._work, groups, loaded)
        return loaded

    async def _work(self, groups: deque[_Group], loaded: Loaded) -> None:
        while groups:
            partition, rows = groups.popleft()
            for at, row in enumerate(rows):
                loaded[row.object_number, row.position] = await self._attempt(partition, rows[at:])

    async def _attempt(self, partition: Partition, rows: list[RunRow]) -> PreparedRun | ReadProblem:
        try:
            return await self._get(partition, rows)
        except NoSuchObject:
            return ReadProblem.MISSING
        except StoreUnavailable as error:
            self.failed_reads += 1
            _log.warning("the object store did not answer a read", error=str(error))
            return ReadProblem.UNAVAILABLE
        except CorruptRun:
            return ReadProblem.CORRUPT

    async def _get(self, partition: Partition, rows: list[RunRow]) -> PreparedRun:
        """Return the first of neighbouring runs; the others come along if it is not there."""
        name = self._name(rows[0])
        is_hot = _is_tail(partition, rows[0])

        async def load() -> tuple[object, int]:
            run = await self._fetch(name, partition, rows, is_hot=is_hot)
            return run, run.size_bytes

        run = await self._cache.get((*name, rows[0].position), load, hot=is_hot)
        assert isinstance(run, PreparedRun)
        return run

    async def _fetch(
        self, name: WalName, partition: Partition, rows: list[RunRow], *, is_hot: bool
    ) -> PreparedRun:
        """GET the range of neighbouring runs; keep all but the first, and return that."""
        key = self._object_key(name)
        start = rows[0].position
        length = rows[-1].position + rows[-1].length - start
        async with self._reads:
            region = memoryview(bytearray(await self._store.get_range(key, start, length)))
        self.store_reads += 1
        self.store_bytes += length
        runs = [self._prepare(region, start, row, partition, key) for row in rows]
        for row, run in zip(rows[1:], runs[1:], strict=True):
            self._cache.put((*name, row.position), run, run.size_bytes, hot=is_hot)
        return runs[0]

    def _prepare_own(
        self, name: WalName, cached: CachedObject, partition: Partition, row: RunRow
    ) -> PreparedRun | None:
        """Prepare a run of an own object; memory that went bad is given up for the store's copy."""
        try:
            region = memoryview(cached.body)
            run = self._prepare(region, 0, row, partition, cached.object_key)
        except CorruptRun:
            self._cache.evict(name)
            return None
        cached.prepared[row.position] = run
        return run

    def _prepare(
        self, region: memoryview, start: int, row: RunRow, partition: Partition, object_key: str
    ) -> PreparedRun:
        at = row.position - start
        try:
            return prepare_run(region[at : at + row.length], row, partition, object_key)
        except CorruptRun as error:
            self.corrupt_runs += 1
            _log.error(
                "stored records are corrupt; other partitions are not touched", error=str(error)
            )
            raise

    def _name(self, row: RunRow) -> WalName:
        try:
            return self._coordinator.state.objects.name(row.object_number)
        except KeyError:
            raise NoSuchObject(f"object {row.object_number} was collected") from None

    def _object_key(self, name: WalName) -> str:
        state = self._coordinator.state
        node_id, zone = state.gateways.homes[name.incarnation]
        return wal_key(
            state.cluster_id, state.timeline, zone, node_id, name.incarnation, name.counter
        )

    def _groups(self, miss: Miss) -> list[_Group]:
        """Split a miss into what one GET each brings."""
        groups: list[_Group] = []
        for row in miss.rows:
            if groups and _are_neighbours(groups[-1][1][-1], row):
                groups[-1][1].append(row)
            else:
                groups.append((miss.partition, [row]))
        return groups


def _are_neighbours(one: RunRow, other: RunRow) -> bool:
    """Tell whether only a refused batch can lie between two runs of a partition."""
    gap = other.position - one.position - one.length
    return one.object_number == other.object_number and 0 <= gap <= _MAX_GAP_BYTES


def _is_tail(partition: Partition, row: RunRow) -> bool:
    """Tell whether a run is new enough that others will ask for it soon."""
    runs = partition.runs
    return len(runs) <= _TAIL_RUNS or row.base_offset >= runs[len(runs) - _TAIL_RUNS].base_offset
