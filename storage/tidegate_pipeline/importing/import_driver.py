"""The driver of an import: plans units, hands them to a runner, publishes what comes back.

    state, bounds --PartitionImport--> units --Runner--> WAL objects --CommitWal--> state

It registers as the pipeline does, with an incarnation of its own after which its objects are named,
and holds the claim at which the gateways' mirrors of the link stand aside.  How far a copy is, is
where it ends in the state; so an import that died goes on where its last publication ended, and
what its tasks wrote beyond are orphans.  Each batch names the end that it follows, so nothing is
published twice, also if a mirror or another import writes to the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, TypeAlias

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    Failure,
    ProposalFailed,
)
from tidegate_coordination.coordinator.visitor import register_visitor
from tidegate_coordination.rules.gateways import ReleaseClaim, TakeClaim
from tidegate_coordination.rules.import_claims import import_claim
from tidegate_coordination.rules.mirrors import PlaceMirrors
from tidegate_coordination.rules.records.wal import BatchOutcome, CommitWal
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.topics import Topic

from .partition_import import PartitionImport
from .publishing import end_after, placing_before, proposals, refusal_of
from .work import Ending, ImportTask, ImportUnit, UnitDone

_log = structlog.get_logger("tidegate.import")

KIND: Final = "import"
ZONE: Final = "import"
OBJECT_BYTES: Final = 8 << 20
# The most bytes that one batch takes in an entry of the log, as at a gateway's WAL writer.
ENTRY_BYTES_PER_BATCH: Final = 120
UNITS_A_TASK: Final = 16
TASKS_BEYOND_SLOTS: Final = 1
SETTLE_SECONDS: Final = 1.5
"""The mirrors stand aside a moment after the claim, and their batches under way are committed."""
CLAIM_SECONDS: Final = 0.25
FIRST_PAUSE_SECONDS: Final = 0.5

Place: TypeAlias = tuple[str, int]
Bounds: TypeAlias = Mapping[Place, tuple[int, int] | str]
"""By topic and partition: where the source begins and ends, or why that is not known."""


class SourceSide(Protocol):
    """What the driver itself asks of the source."""

    async def bounds(self, topics: Sequence[Topic]) -> Bounds:
        """Look where the partitions of topics begin and end."""
        ...

    async def difference(self, topic: Topic, index: int, epoch_ends: Mapping[int, int]) -> str:
        """Return how the source's history differs from one whose epochs reach that far; "" for not
        at all, or not known.  Units are read at different times: the source may lose records in an
        unclean election meanwhile.
        """
        ...


class ImportRunner(Protocol):
    """Runs tasks somewhere: in this process, or on Spark."""

    async def slots(self) -> int:
        """Return how many tasks can run at once."""
        ...

    async def run(self, task: ImportTask) -> Sequence[UnitDone]:
        """Return the results; units of a lost task have none.  May raise to end the import."""
        ...


@dataclass(slots=True)
class ImportCounters:
    """The published work; size_bytes: of batches."""

    size_bytes: int = 0
    batches: int = 0
    objects: int = 0
    failed: int = 0


class ImportDriver:
    """See the module's head.

    Args:
      coordinator: its state holds the log so far; the caller runs its run().
      on_progress: called with bytes published, and those that are left, about.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        runner: ImportRunner,
        source: SourceSide,
        link: str,
        *,
        rng: Random,
        software_version: str,
        on_progress: Callable[[int, int], None] = lambda done, left: None,
    ) -> None:
        self.partitions: list[PartitionImport] = []
        self.counters = ImportCounters()
        self._coordinator = coordinator
        self._runner = runner
        self._source = source
        self._link = link
        self._rng = rng
        self._software_version = software_version
        self._on_progress = on_progress
        self._changed = trio.Event()
        self._tasks = 0
        self._numbers = 0
        self._counter = 0
        self._publishing: set[int] = set()
        self._is_stopped = False

    async def register(self) -> None:
        """Start an incarnation.

        Raises:
          CoordinatorUnavailable: the log does not answer.
        """
        await register_visitor(
            self._coordinator,
            KIND,
            rng=self._rng,
            software_version=self._software_version,
            zone=ZONE,
        )

    async def take_claim(self, on_wait: Callable[[], None]) -> None:
        """Take the claim of the link; wait as long as another import holds it."""
        while await self._coordinator.propose(TakeClaim(import_claim(self._link))) is None:
            on_wait()
            await trio.sleep(CLAIM_SECONDS)
        await trio.sleep(SETTLE_SECONDS)

    def stop(self) -> None:
        """Start no more tasks; what is under way is published."""
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

    async def leave(self) -> None:
        """Release the claim and end this incarnation."""
        try:
            await self._coordinator.propose(ReleaseClaim(import_claim(self._link)))
            await self._coordinator.leave()
        except (CoordinatorUnavailable, ProposalFailed) as error:
            _log.warning("could not write the leave entry; the lease will expire", error=str(error))

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
                each.begin(copy, *found)

    def _copy(self, each: PartitionImport) -> Partition | None:
        return self._coordinator.state.partitions.get(each.number)

    def _next_units(self, slots: int) -> Sequence[ImportUnit]:
        """Return the units of the next task: of the partition that has the fewest under way; first
        units are small, and share a task.
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
        unit = each.next_unit(self._numbers, self._counter)
        self._counter += unit.counters
        return unit

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
        each = self._partition_of(unit)
        if each.under_way.get(unit.start) is not unit:
            return  # of an earlier beginning
        if done.ending in (Ending.FAILED, Ending.GONE):
            self._fail(each, done.text)
            await trio.sleep(FIRST_PAUSE_SECONDS * 2**each.fails)
        if done.ending is Ending.DIVERGED:
            each.problem = done.text
        if done.ending is Ending.GONE and each.under_way.get(unit.start) is unit:
            await self._again(each)
        elif each.take(unit, done):
            await self._publish_all(each)
        self._wake()

    def _partition_of(self, unit: ImportUnit) -> PartitionImport:
        place = (unit.topic_id, unit.partition)
        return next(p for p in self.partitions if (p.topic.topic_id, p.index) == place)

    def _fail(self, each: PartitionImport, text: str) -> None:
        self.counters.failed += 1
        each.failed(text)
        _log.warning("a part of a partition failed", partition=each.name, error=text)

    async def _again(self, each: PartitionImport) -> None:
        """Plan a partition anew: its copy or its source is not what was planned with."""
        await self._coordinator.catch_up()
        await self._begin([each])

    # -- publishing --------------------------------------------------------------------------------

    async def _publish_all(self, each: PartitionImport) -> None:
        """Publish what is next, unless another task does so for the partition."""
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
            refusal = await self._publish(each, unit, done)
        except (CoordinatorUnavailable, ProposalFailed) as error:
            refusal = str(error)
        if refusal:
            self._fail(each, f"batches at offset {unit.start} were not written: {refusal}")
            return await self._again(each)
        each.published(unit, done)
        self._count(done)
        self._wake()
        return None

    async def _publish(self, each: PartitionImport, unit: ImportUnit, done: UnitDone) -> str:
        """Publish a unit; return why it was refused, "" if it was not."""
        placing = placing_before(unit, done, each.end)
        if placing is not None:
            [is_placed] = await self._coordinator.propose(PlaceMirrors(self._link, (placing,)))
            if not is_placed:
                return "the copy ends elsewhere by now"
            each.end = placing.next_offset
        incarnation = self._coordinator.incarnation
        for answer in await self._committed(proposals(incarnation, unit, done, each.end)):
            if isinstance(answer, ProposalFailed | CoordinatorUnavailable):
                raise answer
            if refusal := refusal_of(answer):
                return refusal
        each.end = end_after(done, each.end)
        return ""

    async def _committed(
        self, proposals: Iterator[CommitWal]
    ) -> Sequence[list[BatchOutcome] | Failure]:
        """Propose all in their order, without waiting in between; return their answers."""
        answers: list[list[BatchOutcome] | Failure] = []
        settled, wanted = trio.Event(), 0

        def take(answer: list[BatchOutcome] | Failure) -> None:
            answers.append(answer)
            settled.set()

        for each in proposals:
            wanted += 1
            self._coordinator.submit(each, take, take)
        while len(answers) < wanted:
            await settled.wait()
            settled = trio.Event()
        return answers

    def _count(self, done: UnitDone) -> None:
        counters = self.counters
        counters.size_bytes += done.read_bytes
        counters.objects += len(done.objects)
        counters.batches += sum(len(each.batches) for each in done.objects)
        self._on_progress(counters.size_bytes, sum(each.left_bytes for each in self.partitions))

    def _wake(self) -> None:
        self._changed.set()
