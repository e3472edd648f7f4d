"""Machines that run the pipeline's driver, life after life; see host.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import TypeVar, cast

import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.coordinator.loading import check_cluster, load_state
from tidegate_coordination.rules.gateways import TakeClaim
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.records.segments import Publication
from tidegate_pipeline.driver import CLAIM, Driver
from tidegate_pipeline.planning.plan import backlog

from ..plans.pipeline_plan import PREFIX, TaskFaults
from .faulty.unreliable_runner import UnreliableRunner
from .host import Host
from .world import World

LOAD_SECONDS = 120.0
_LOOK_SECONDS = 0.5

Answer = TypeVar("Answer")


class BoldCoordinator(Coordinator):
    """Behaves as if it held the pipeline's claim, even while another driver holds it.

    The claim only saves work: drivers that run at the same time must not harm each other.
    """

    async def propose(self, proposal: Proposal[Answer], *, expires: bool = False) -> Answer:
        """See Coordinator."""
        if _is_claim(proposal):
            await trio.lowlevel.checkpoint()
            return cast("Answer", 1)
        return await super().propose(proposal, expires=expires)


def _is_claim(proposal: object) -> bool:
    return isinstance(proposal, TakeClaim) and proposal.name == CLAIM


class Pipeline(Host):
    """See the module's head.  settings: of this life and later ones."""

    prefix = PREFIX

    def __init__(
        self, world: World, number: int, clock_offset_seconds: float, clock_rate: float = 1.0
    ) -> None:
        super().__init__(world, f"pipeline {number}", clock_offset_seconds, clock_rate)
        self.settings = world.plan.pipelines.settings
        self._runner: UnreliableRunner | None = None
        self._dropped: Counter[str] = Counter()
        self._is_leaving = False

    @property
    def is_up(self) -> bool:
        """See Host."""
        return self._runner is not None

    async def next_task(self) -> None:
        """Wait until a task of this life begins; forever if none does."""
        if self._runner is not None:
            await self._runner.next_task()

    def finish(self) -> None:
        """From now on merge every WAL object at once, however new and small."""
        self.settings = replace(self.settings, rest_ms=0, patience_ms=0)
        self.drain()

    # -- its lives --------------------------------------------------------------------------------

    async def _serve(self, nursery: trio.Nursery) -> None:
        plan = self._world.plan.pipelines
        log, store = self._open()
        state = await load_state(log, deadline_seconds=LOAD_SECONDS)
        check_cluster(state, "")
        kind = BoldCoordinator if plan.is_bold else Coordinator
        coordinator = kind(log, state, rng=self._rng, wall_clock=self._wall_clock)
        nursery.start_soon(coordinator.run)
        attempts = count(1)
        runner = UnreliableRunner(
            store,
            nursery,
            next_attempt=lambda: next(attempts),
            at_once=plan.tasks_at_once,
            faults=self._task_faults,
            rng=self._rng,
            ledger=self._world.strikes,
            complain=self._world.complain,
        )
        driver = Driver(coordinator, runner, self.settings, rng=self._rng, software_version="0")
        await driver.register()
        nursery.start_soon(driver.keep_lease)
        self._watch(coordinator)
        self._dropped.clear()
        self._is_leaving = False
        self._runner = runner
        self._count("started")
        await self._work(driver)
        self._count("drained")

    def _task_faults(self) -> TaskFaults:
        return TaskFaults() if self._world.healed else self._world.plan.pipelines.tasks

    async def _work(self, driver: Driver) -> None:
        """Leave after a round, or cancel a round, or leave during one."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._rounds, driver, driver.run_once)
            nursery.start_soon(self._rounds, driver, driver.compact_once)
            await self._drain.wait()
            how = self._rng.choice(("after", "break off", "under way"))
            if how == "break off":
                nursery.cancel_scope.cancel()
            elif how == "under way":
                self._is_leaving = True
                await driver.leave()
                await trio.sleep(self._rng.random())
                nursery.cancel_scope.cancel()
        if not self._is_leaving:
            await driver.leave()

    async def _rounds(self, driver: Driver, do: Callable[[], Awaitable[int]]) -> None:
        while not self._drain.is_set():
            try:
                await do()
            except CoordinatorUnavailable:
                self._count("round given up")
            except ProposalFailed:
                if not self._is_leaving:
                    raise
            self._tell(driver)
            with trio.move_on_after(self._world.plan.pipelines.pause_seconds):
                await self._drain.wait()

    def _tell(self, driver: Driver) -> None:
        """Count the reasons for which this round dropped units."""
        dropped = Counter(driver.counters.dropped)
        for reason, times in (dropped - self._dropped).items():
            name = Publication(reason).name.lower()
            self._world.strikes.count(f"{self.prefix}dropped.{name}", times)
        self._dropped = dropped

    def _forget(self) -> None:
        self._runner = None


async def merge_what_rests(world: World, pipelines: Iterable[Pipeline]) -> None:
    """Wait until everything is merged; forever if it cannot be."""
    for each in pipelines:
        each.finish()
    while any(backlog(world.watch.state)):  # noqa: ASYNC110 - they may die yet
        await trio.sleep(_LOOK_SECONDS)
