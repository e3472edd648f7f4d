"""The pipeline's driver: a replica of the cluster state that plans, dispatches and publishes.

    state --plan--> units --tasks--> Runner --results--> PublishSegments --append--> state

It registers like a gateway, with a node id below zero.  So it has a lease, an incarnation that its
segments are named after, and a claim; clients never see it.  The claim only saves work: if the
parents of a unit are no longer live at its log position, the rules refuse the unit, whichever
driver proposes it (rules/records/segments.py).  Segments of refused units are orphans.

All waits go through trio, and the caller passes the runner, so the simulator runs all of this.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from random import Random

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.coordinator.visitor import keep_lease, register_visitor
from tidegate_coordination.events.cluster import CleanedPartition
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, SETTINGS_TOLD
from tidegate_coordination.rules.cluster_settings import NO_GATEWAY, ClusterSettings
from tidegate_coordination.rules.gateways import ReleaseClaim, TakeClaim
from tidegate_coordination.rules.pipeline_reports import ReportPipeline
from tidegate_coordination.rules.records.segments import (
    Publication,
    PublishCompaction,
    PublishSegments,
    SegmentUnit,
)
from tidegate_coordination.state.cluster import ClusterState

from .counters import PipelineCounters
from .planning.limits import MergeSettings
from .planning.pauses import Pauses
from .planning.plan import Plan, PlannedUnit, UnderWay, group_units
from .tasks.work import Asked, MergeTask, Runner, UnitResult

_log = structlog.get_logger("tidegate.pipeline")

CLAIM = "pipeline"
# Bounds of one proposal: a unit is some hundred bytes of a log entry, and each of its parents costs
# every gateway some microseconds.  PUBLISH_SECONDS: how long a finished unit waits for others to be
# published with it.
UNITS_PER_PROPOSAL = 100
PARENTS_PER_PROPOSAL = 5_000
PUBLISH_SECONDS = 2.0
PARTITIONS_A_TURN = 100
# The time between two reports in the log.
REPORT_SECONDS = 60.0


@dataclass(slots=True)
class _Kind:
    """A kind of rounds.

    resume_at: the partition where the last round became full.  done, planned: units of the round
    under way.
    """

    add: Callable[[Plan, int], bool]
    resume_at: int = 0
    done: int = 0
    planned: int = 0


class Driver:
    """See the module's head.

    Args:
      coordinator: its state holds the log so far; the caller runs its run().
      on_asked: called with each task's requests to the store, even if its units are not published.
      on_progress: called after each result with the numbers of done and planned units in the rounds
          under way; both are 0 if no round is.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        runner: Runner,
        settings: MergeSettings,
        *,
        rng: Random,
        software_version: str,
        on_asked: Callable[[Asked], None] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._runner = runner
        self._settings = settings
        self._rng = rng
        self._software_version = software_version
        self._on_asked = on_asked
        self._on_progress = on_progress
        self._cluster = ClusterSettings(coordinator.state)
        self._unknown: list[int] = []
        self._last_number = 0
        self._merges = _Kind(Plan.add_merges)
        self._compactions = _Kind(Plan.add_compaction)
        self._under_way = UnderWay()
        self._pauses = Pauses()
        self.counters = PipelineCounters()
        self._reported = PipelineCounters()
        self._reported_at = -REPORT_SECONDS

    @property
    def state(self) -> ClusterState:
        """Return the replica; read only."""
        return self._coordinator.state

    @property
    def holds_claim(self) -> bool:
        """Return whether this driver holds the claim."""
        claim = self.state.claims.get(CLAIM)
        return claim is not None and claim.incarnation == self._coordinator.incarnation

    @property
    def failing(self) -> int:
        """Return the number of stretches whose last try failed."""
        return len(self._pauses)

    async def register(self) -> None:
        """Start an incarnation.

        Raises:
          CoordinatorUnavailable: the log does not answer.
        """
        await register_visitor(
            self._coordinator, CLAIM, rng=self._rng, software_version=self._software_version
        )

    async def keep_lease(self) -> None:
        """Renew the lease, forever."""
        await keep_lease(self._coordinator)

    async def run_once(self) -> int:
        """Plan a round of merges and do it; return the number of units published.

        Raises:
          CoordinatorUnavailable: the log does not answer.  Published units stay.
        """
        self.counters.rounds += 1
        return await self._round(self._merges)

    async def compact_once(self) -> int:
        """Compact the partitions that are due; may run at the same time as run_once().

        Returns and raises as run_once() does.
        """
        self._warn_of_unknown()
        return await self._round(self._compactions)

    def _warn_of_unknown(self) -> None:
        """Warn if unknown settings of gateways keep topics from compaction."""
        unknown = self._cluster.unknown
        if unknown and unknown != self._unknown:
            _log.warning(
                "static settings of gateways are unknown: compacting only topics whose own or"
                " dynamic configs say how",
                gateways="all" if NO_GATEWAY in unknown else sorted(unknown),
                do=_what_to_do(self.state.metadata_version),
            )
        self._unknown = unknown

    async def _round(self, kind: _Kind) -> int:
        if await self._coordinator.propose(TakeClaim(CLAIM)) is None:
            _log.info("another pipeline holds the claim; waiting")
            return 0
        plan = self._new_plan()
        try:
            await self._fill(plan, kind)
            published = await self._do(plan.units, kind) if plan.units else 0
        finally:
            self._under_way.end(plan.units)
            self._progress(kind, 0, 0)
        if trio.current_time() >= self._reported_at + REPORT_SECONDS:
            await self._report()
        return published

    async def _report(self) -> None:
        """Append a report of the work since the last one to the log."""
        now = copy.deepcopy(self.counters)
        report = now.report_since(self._reported)
        if report is not None:
            self._reported_at = trio.current_time()
            self._reported = now
            await self._coordinator.propose(ReportPipeline(self._coordinator.incarnation, report))

    def _progress(self, kind: _Kind, done: int, planned: int) -> None:
        kind.done, kind.planned = done, planned
        if self._on_progress is not None:
            kinds = (self._merges, self._compactions)
            self._on_progress(sum(k.done for k in kinds), sum(k.planned for k in kinds))

    def _new_plan(self) -> Plan:
        pauses, now = self._pauses, trio.current_time()
        pauses.prune(now)
        return Plan(
            self._coordinator.state,
            self._settings,
            settings_of=self._cluster.of,
            is_paused=lambda stretch: pauses.is_paused(stretch, now),
            next_number=self._next_number,
            under_way=self._under_way,
        )

    async def _fill(self, plan: Plan, kind: _Kind) -> None:
        """Plan all partitions, starting where the last round of the kind became full."""
        numbers = sorted(each.number for each in self.state.partitions.values())
        start = bisect_left(numbers, kind.resume_at)
        kind.resume_at = 0
        for at, number in enumerate(numbers[start:] + numbers[:start]):
            if plan.is_full:
                kind.resume_at = number
                break
            if kind.add(plan, number) or at % PARTITIONS_A_TURN == 0:
                await trio.lowlevel.checkpoint()

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    async def _do(self, planned: Sequence[PlannedUnit], kind: _Kind) -> int:
        by_number = {each.unit.number: each for each in planned}
        published = done = 0
        waiting: list[tuple[PlannedUnit, UnitResult]] = []
        published_at = trio.current_time()
        async with aclosing(self._runner.run(self._tasks(planned))) as results:
            async for result in results:
                if result.asked is not None and self._on_asked is not None:
                    self._on_asked(result.asked)
                each = by_number.pop(result.number, None)
                if each is None:
                    continue  # a task that ran twice
                done += 1
                if result.error:
                    self._failed(each, result.error)
                else:
                    waiting.append((each, result))
                if _is_enough(waiting, trio.current_time() - published_at) or not by_number:
                    published += await self._publish(waiting)
                    waiting, published_at = [], trio.current_time()
                self._progress(kind, done, len(planned))
        published += await self._publish(waiting)
        for each in by_number.values():
            self._failed(each, "the task was lost: it returned no result")
        return published

    def _failed(self, each: PlannedUnit, error: str) -> None:
        self.counters.failed += 1
        self.counters.last_error = error
        seconds = self._pauses.failed(each.stretch, trio.current_time())
        _log.error("a unit failed; others go on", error=error, again_in_seconds=seconds)

    def _tasks(self, planned: Sequence[PlannedUnit]) -> list[MergeTask]:
        state = self._coordinator.state
        incarnation = self._coordinator.incarnation
        return [
            MergeTask(
                state.cluster_id,
                state.timeline_of(incarnation),
                incarnation,
                self._settings.chunk_bytes,
                tuple(each.unit for each in group),
            )
            for group in group_units(planned, self._settings.task_bytes)
        ]

    async def _publish(self, finished: Sequence[tuple[PlannedUnit, UnitResult]]) -> int:
        """Propose the written segments; return the number of published units.

        A proposal whose outcome is unknown is not repeated: if it was committed, the next plan no
        longer finds the parents.  Otherwise the next plan does the work again.
        """
        if not finished:
            return 0
        if finished[0][0].unit.rules is not None:
            answers = [await self._publish_compaction(*each) for each in finished]
        else:
            units = tuple(
                SegmentUnit(
                    each.partition, each.parents, result.segments, result.records, result.digest
                )
                for each, result in finished
            )
            proposal = PublishSegments(self._coordinator.incarnation, units)
            answers = list(await self._coordinator.propose(proposal))
        published = 0
        for (each, result), answer in zip(finished, answers, strict=True):
            if answer is Publication.PUBLISHED:
                published += 1
                self._pauses.done(each.stretch)
                self._count(each, result)
            elif answer is Publication.INVALID:
                self._failed(each, answer.value)
            else:
                self.counters.dropped[answer.value] += 1
                _log.info("a unit was dropped", reason=answer.value, partition=each.partition)
        return published

    async def _publish_compaction(self, each: PlannedUnit, result: UnitResult) -> Publication:
        rules, compacted = each.unit.rules, result.compacted
        topic = self.state.topics.by_id.get(each.unit.topic_id)
        if topic is None:
            return Publication.NO_PARTITION
        if rules is None or compacted is None:
            return Publication.INVALID
        if not self._cluster.of(topic).is_compacted:
            return Publication.NOT_COMPACTED
        stretches = tuple(
            SegmentUnit(
                each.partition,
                each.parents[stretch.first : stretch.stop],
                (segment,),
                stretch.records,
                stretch.digest,
                stretch.removed,
            )
            for stretch, segment in zip(compacted.stretches, result.segments, strict=True)
        )
        if compacted.unreadable:
            _log.warning(
                "batches whose records cannot be read stay as they are",
                topic=topic.name,
                partition=each.unit.partition,
                batches=compacted.unreadable,
            )
        end = CleanedPartition(each.partition, compacted.end_offset, rules.retention_ms)
        return await self._propose_parts(each.partition, stretches, end)

    async def _propose_parts(
        self, partition: int, stretches: Sequence[SegmentUnit], end: CleanedPartition
    ) -> Publication:
        """Publish the stretches in parts; the last part also records that the round is done."""
        incarnation, refused = self._coordinator.incarnation, None
        parts = [tuple(part) for part in _parts(stretches)] or [()]
        for at, part in enumerate(parts):
            is_end = at == len(parts) - 1 and refused is None
            answer = await self._coordinator.propose(
                PublishCompaction(incarnation, partition, part, end if is_end else None)
            )
            if answer is not Publication.PUBLISHED:
                refused = refused or answer
        return refused or Publication.PUBLISHED

    def _count(self, each: PlannedUnit, result: UnitResult) -> None:
        counters = self.counters
        counters.units += 1
        counters.parents += len(each.parents)
        counters.bytes += each.unit.size_bytes
        counters.records += result.records
        counters.gets += result.gets
        if result.compacted is not None:
            counters.compacted += 1
            counters.removed += sum(each.removed for each in result.compacted.stretches)

    async def leave(self) -> None:
        """Release the claim and end this incarnation."""
        try:
            await self._report()
            await self._coordinator.propose(ReleaseClaim(CLAIM))
            await self._coordinator.leave()
        except (CoordinatorUnavailable, ProposalFailed) as error:
            _log.warning("could not write the leave entry; the lease will expire", error=str(error))


def _what_to_do(version: int) -> str:
    if version >= SETTINGS_TOLD:
        return "start a gateway: it writes its settings to the log"
    return f"run one release everywhere, then raise {FEATURE_NAME} to {SETTINGS_TOLD}"


def _parts(stretches: Sequence[SegmentUnit]) -> Iterator[list[SegmentUnit]]:
    """Split the stretches into lists that fit one proposal each."""
    part: list[SegmentUnit] = []
    parents = 0
    for stretch in stretches:
        if len(part) >= UNITS_PER_PROPOSAL or parents >= PARENTS_PER_PROPOSAL:
            yield part
            part, parents = [], 0
        part.append(stretch)
        parents += len(stretch.parents)
    if part:
        yield part


def _is_enough(waiting: Sequence[tuple[PlannedUnit, UnitResult]], seconds: float) -> bool:
    parents = sum(len(each.parents) for each, _ in waiting)
    is_large = len(waiting) >= UNITS_PER_PROPOSAL or parents >= PARENTS_PER_PROPOSAL
    return is_large or seconds >= PUBLISH_SECONDS
