"""The driver of an import: plans units, hands them to a runner, publishes what comes back.

    state, bounds --PartitionImport--> units --Runner--> WAL objects --CommitWal--> state

The driver registers as the pipeline does. Its objects are named after its own incarnation.  While
it holds its claim, the gateways' mirrors of the link stand aside.  The progress of a copy is its
end in the state, so an import that died continues where its last publication ended.  Objects that
its tasks wrote beyond that end are orphans.  Each batch names the end that it follows, so nothing
is published twice, even if a mirror or another import writes to the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog
import trio

from tidegate_coordination.client.walked_batches import DECOMPRESSED_BYTES
from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic

from .counters import ObjectCounters
from .partition_import import PartitionImport
from .parts import ImportCounters, ImportRunner, SourceSide
from .unit_publisher import UnitPublisher
from .work import Ending, ImportTask, ImportUnit, UnitDone

_log = structlog.get_logger("tidegate.import")

OBJECT_BYTES: Final = 8 << 20
# The most bytes that one batch takes in an entry of the log, as at a gateway's WAL writer.
ENTRY_BYTES_PER_BATCH: Final = 120
UNITS_A_TASK: Final = 16
TASKS_BEYOND_SLOTS: Final = 1
FIRST_PAUSE_SECONDS: Final = 0.5


class ImportDriver:
    """See the module's head.

    Args:
      coordinator: its state holds the log so far; the caller runs its run(), and has begun the
        visit (visit.py).
      decompressed_bytes: see ImportTask.
      on_progress: called with the published bytes, and about how many bytes are left.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        runner: ImportRunner,
        source: SourceSide,
        link: str,
        *,
        decompressed_bytes: int | None = DECOMPRESSED_BYTES,
        on_progress: Callable[[int, int], None] = lambda done, left: None,
    ) -> None:
        self.partitions: list[PartitionImport] = []
        self.counters = ImportCounters()
        self._coordinator = coordinator
        self._runner = runner
        self._source = source
        self._decompressed_bytes = decompressed_bytes
        self._on_progress = on_progress
        self._publisher = UnitPublisher(coordinator, link)
        self._changed = trio.Event()
        self._tasks = 0
        self._numbers = 0
        self._object_counters = ObjectCounters()
        self._publishing: set[int] = set()
        self._by_place: dict[tuple[bytes, int], PartitionImport] = {}
        self._is_stopped = False

    def stop(self) -> None:
        """Start no more tasks; the results of tasks under way are still published."""
        self._is_stopped = True
        self._wake()

    async def run(self, topics: Sequence[Topic]) -> None:
        """Copy the topics to where the source ends now.

        Raises:
          CoordinatorUnavailable, ProposalFailed: the log does not answer.  Published
            units stay.
        """
        await self._coordinator.catch_up()
        self.partitions = [
            PartitionImport(topic, index, number)
            for topic in topics
            for index, number in enumerate(topic.partition_numbers)
        ]
        self._by_place = {(each.topic.topic_id, each.index): each for each in self.partitions}
        await self._begin(self.partitions)
        slots = await self._runner.slots() + TASKS_BEYOND_SLOTS
        async with trio.open_nursery() as nursery:
            while not all(each.is_over for each in self.partitions) or self._tasks:
                units = self._next_units(slots) if self._tasks < slots else ()
                if units:
                    self._tasks += 1
                    nursery.start_soon(self._do, units)
                elif self._is_stopped and not self._tasks:
                    break
                else:
                    await self._changed.wait()
                    self._changed = trio.Event()
        for each in self.partitions:
            if not each.problem and each.epoch_ends:
                each.problem = await self._source.difference(
                    each.topic, each.index, each.epoch_ends
                )

    # -- planning ----------------------------------------------------------------------------------

    async def _begin(self, partitions: Sequence[PartitionImport]) -> None:
        topics = {each.topic.topic_id: each.topic for each in partitions}
        bounds = await self._source.bounds(list(topics.values()))
        for each in partitions:
            found = bounds.get((each.topic.name, each.index), "the source does not have it")
            copy = self._copy(each)
            if copy is None:
                each.problem = "the topic is gone here"
            elif isinstance(found, str):
                each.problem = found
            else:
                each.problem = self._source.obstacle(each.topic, each.index, copy.next_offset)
                each.begin(copy, *found)

    def _copy(self, each: PartitionImport) -> Partition | None:
        return self._coordinator.state.partitions.get(each.number)

    def _next_units(self, slots: int) -> Sequence[ImportUnit]:
        """Return the units of the next task, from the partition with the fewest under way.

        First units are small, and share a task.
        """
        if self._is_stopped:
            return ()
        able = [each for each in self.partitions if each.may_plan]
        if not able:
            return ()
        able.sort(key=lambda each: len(each.under_way) + len(each.waiting))
        first = [each for each in able if not each.offset_bytes]
        if first:
            count = min(UNITS_A_TASK, max(len(first) // slots, 1))
            return [self._next_unit(each) for each in first[:count]]
        return [self._next_unit(able[0])]

    def _next_unit(self, each: PartitionImport) -> ImportUnit:
        self._numbers += 1
        return each.next_unit(self._numbers, self._object_counters.take())

    def _task(self, units: Sequence[ImportUnit]) -> ImportTask:
        state, incarnation = self._coordinator.state, self._coordinator.incarnation
        node_id, zone = state.gateways.homes[incarnation]
        return ImportTask(
            state.cluster_id,
            state.timeline_of(incarnation),
            zone,
            node_id,
            incarnation,
            OBJECT_BYTES,
            max(self._coordinator.max_entry_bytes // 4 // ENTRY_BYTES_PER_BATCH, 1),
            tuple(units),
            self._decompressed_bytes,
        )

    # -- results -----------------------------------------------------------------------------------

    async def _do(self, units: Sequence[ImportUnit]) -> None:
        try:
            found = {each.number: each for each in await self._runner.run(self._task(units))}
        finally:
            self._tasks -= 1
            self._wake()
        async with trio.open_nursery() as nursery:
            for unit in units:
                lost = UnitDone(unit.number, Ending.FAILED, unit.start, text="the task was lost")
                nursery.start_soon(self._take, unit, found.get(unit.number, lost))

    async def _take(self, unit: ImportUnit, done: UnitDone) -> None:
        each = self._by_place[unit.topic_id, unit.partition]
        done = each.judged(unit, done)
        if each.under_way.get(unit.start) is not unit:
            return  # of an earlier plan
        if done.ending in (Ending.FAILED, Ending.GONE):
            self._fail(each, done.text)
            await trio.sleep(FIRST_PAUSE_SECONDS * 2**each.fails)
        if done.ending is Ending.DIVERGED:
            each.problem = done.text
        if done.ending is Ending.GONE and each.under_way.get(unit.start) is unit:
            await self._again(each)
        elif each.take(unit, done):
            if done.ending not in (Ending.FAILED, Ending.DIVERGED):
                self._object_counters.release(unit, done)
            await self._publish_all(each)
        self._wake()

    def _fail(self, each: PartitionImport, text: str) -> None:
        self.counters.failed += 1
        each.failed(text)
        _log.warning("a part of a partition failed", partition=each.name, error=text)

    async def _again(self, each: PartitionImport) -> None:
        """Plan a partition again, since its copy or its source has changed since the plan."""
        await self._coordinator.catch_up()
        await self._begin([each])

    # -- publishing --------------------------------------------------------------------------------

    async def _publish_all(self, each: PartitionImport) -> None:
        """Publish the next units, unless another task is publishing for the partition."""
        if each.number in self._publishing:
            return
        self._publishing.add(each.number)
        try:
            for unit, done in each.publishable():
                await self._publish_one(each, unit, done)
        finally:
            self._publishing.discard(each.number)

    async def _publish_one(self, each: PartitionImport, unit: ImportUnit, done: UnitDone) -> None:
        try:
            refusal = await self._publisher.publish(each, unit, done)
        except (CoordinatorUnavailable, ProposalFailed) as error:
            refusal = str(error)
        if refusal:
            self._fail(each, f"batches at offset {unit.start} were not written: {refusal}")
            return await self._again(each)
        each.published(unit, done)
        self._count(done)
        self._wake()
        return None

    def _count(self, done: UnitDone) -> None:
        counters = self.counters
        counters.size_bytes += done.read_bytes
        counters.objects += len(done.objects)
        counters.batches += sum(len(each.batches) for each in done.objects)
        self._on_progress(counters.size_bytes, sum(each.left_bytes for each in self.partitions))

    def _wake(self) -> None:
        self._changed.set()
