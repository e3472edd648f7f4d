"""The simulated pipelines: their draws, their runners, and whole runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from random import Random

import pytest
import trio
import trio.testing

from tests.worlds.fetch_world import NOW_MS, batch, fetch_world
from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.state.cluster import ClusterState
from tidegate_pipeline.driver import Driver
from tidegate_pipeline.planning.limits import MergeSettings
from tidegate_pipeline.runners.local_runner import LocalRunner
from tidegate_pipeline.tasks.work import MergeTask, MergeUnit, Source, UnitResult
from tidegate_simulation.invariants.deletion_checks import DeletionWatch
from tidegate_simulation.plans.disk_plan import DISK_KINDS
from tidegate_simulation.plans.faults import KINDS
from tidegate_simulation.plans.gateways.away_plan import AWAY_KIND
from tidegate_simulation.plans.gateways.drain_plan import DRAIN_KIND
from tidegate_simulation.plans.gateways.forwarding_plan import FORWARDING_KINDS
from tidegate_simulation.plans.gateways.refused_plan import CALLS as REFUSED_KINDS
from tidegate_simulation.plans.link_plan import KINDS as LINK_KINDS
from tidegate_simulation.plans.link_plan import MALFORMED
from tidegate_simulation.plans.losses import LOSS_KINDS
from tidegate_simulation.plans.move_plan import MOVED
from tidegate_simulation.plans.pipeline_plan import (
    PIPELINE_KINDS,
    PREFIX,
    TASK_KINDS,
    TaskFaults,
    draw_pipelines,
)
from tidegate_simulation.plans.security.sealing_plan import REPLACED
from tidegate_simulation.plans.strikes import Strikes
from tidegate_simulation.plans.version_plan import DAMAGE_KIND, LATE_KIND, UPGRADE_KIND
from tidegate_simulation.run import plan_of, simulate
from tidegate_simulation.world.faulty.unreliable_runner import UnreliableRunner
from tidegate_storage.stores.memory_store import MemoryObjectStore

# -- draws ----------------------------------------------------------------------------------------


def test_every_kind_is_drawn_and_some_seeds_have_no_pipeline() -> None:
    plans = [plan_of(seed) for seed in range(1, 400)]
    drivers = [plan.pipelines.drivers for plan in plans]
    kinds = {kind for plan in plans for kind in plan.kinds}
    apart = {*PIPELINE_KINDS, *LOSS_KINDS, *DISK_KINDS, *FORWARDING_KINDS, DRAIN_KIND}
    apart |= {MOVED, UPGRADE_KIND, LATE_KIND, DAMAGE_KIND, AWAY_KIND, REPLACED, *LINK_KINDS}
    apart |= {*REFUSED_KINDS, MALFORMED}
    assert kinds == {*KINDS, *apart}
    assert {plan.disks.max_bytes for plan in plans if not plan.pipelines.drivers} == {0}
    assert all(drivers.count(number) > 100 for number in (0, 1, 2)), drivers
    assert any(plan.pipelines.is_bold for plan in plans)
    for plan in plans:
        drawn = {each for each in plan.kinds if each.startswith(PREFIX)}
        assert drawn == set(plan.pipelines.kinds)
        assert not drawn or plan.pipelines.drivers


def test_a_driver_with_a_wrong_clock_runs_without_others() -> None:
    for seed in range(300):
        plan = draw_pipelines(Random(seed), is_calm=False, with_wrong_clocks=True)
        assert not plan.skew_seconds
        calm = draw_pipelines(Random(seed), is_calm=True, with_wrong_clocks=False)
        assert not calm.kinds


# -- whole runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [5, 6, 15, 20, 32])
def test_runs_with_pipelines_read_from_segments_and_find_nothing(seed: int) -> None:
    report = simulate(seed, 150)
    assert not report.violations, report.replay
    counts = report.landed.counts
    assert counts["pipeline.published"] > 5
    assert counts["fetch.from_segment"] > 20


# -- the runner -----------------------------------------------------------------------------------


def task_of(*numbers: int) -> MergeTask:
    """Return units whose only source is missing, so that each ends at once."""
    units = tuple(
        MergeUnit(number, bytes(16), 0, (Source("gone", number, 1, 0, 1, 0, -1, 0),))
        for number in numbers
    )
    return MergeTask("c", 1, 1, 1000, units)


@asynccontextmanager
async def runner(faults: TaskFaults) -> AsyncIterator[tuple[UnreliableRunner, Strikes, count[int]]]:
    attempts, strikes = count(1), Strikes((), Random(1))
    async with trio.open_nursery() as nursery:
        yield (
            UnreliableRunner(
                MemoryObjectStore(),
                nursery,
                next_attempt=lambda: next(attempts),
                at_once=2,
                faults=lambda: faults,
                rng=Random(3),
                ledger=strikes,
                complain=lambda kind, text: pytest.fail(f"{kind}: {text}"),
            ),
            strikes,
            attempts,
        )


async def test_without_faults_each_unit_has_one_result() -> None:
    async with runner(TaskFaults()) as (made, strikes, attempts):
        tasks = [task_of(1, 2), task_of(3), task_of(4)]
        numbers = [result.number async for result in made.run(tasks)]
    assert sorted(numbers) == [1, 2, 3, 4]
    assert next(attempts) == 4
    assert not strikes.landed


async def test_a_task_run_twice_gives_one_result(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runner(TaskFaults(twice=1.0)) as (made, strikes, attempts):
        numbers = [result.number async for result in made.run([task_of(n) for n in range(9)])]
    assert sorted(numbers) == list(range(9))
    assert next(attempts) == 19
    assert strikes.landed == {f"{PREFIX}twice": 9}


async def test_a_lost_task_gives_no_result_and_a_failed_task_fails() -> None:
    async with runner(TaskFaults(lost_task=1.0)) as (made, _, attempts):
        assert [result async for result in made.run([task_of(1)])] == []
    assert next(attempts) == 2
    async with runner(TaskFaults(failed_task=1.0)) as (made, _, attempts):
        results = [result async for result in made.run([task_of(1, 2)])]
    assert [each.error for each in results] == ["injected: failed_task"] * 2
    assert next(attempts) == 1


async def test_a_slow_task_has_late_results(autojump_clock: trio.testing.MockClock) -> None:
    async with runner(TaskFaults(slow_task=1.0)) as (made, _, _attempts):
        assert [result.number async for result in made.run([task_of(1)])] == [1]
    assert 0 < trio.current_time() <= TaskFaults().slow_seconds


def test_a_promised_task_fault_strikes_soon() -> None:
    for kind in TASK_KINDS:
        strikes = Strikes((f"{PREFIX}{kind}",), Random(1))
        strikes.turn_on()
        assert any(strikes.is_due(f"{PREFIX}{kind}") for _ in range(4))


class TellsItsEnd(LocalRunner):
    """is_closed: whether the last run() reached its end."""

    is_closed = False

    async def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        """See Runner."""
        try:
            for task in tasks:
                for unit in task.units:
                    yield UnitResult(unit.number, (), 0, 0, 0, 0, "not done")
        finally:
            self.is_closed = True


async def test_a_driver_that_gives_a_round_up_ends_its_run_of_tasks() -> None:
    """Seed 5 showed this as a warning: the garbage collector ended a runner."""

    def give_up(done: int, planned: int) -> None:
        raise CoordinatorUnavailable

    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("t", 2)
        await world.write(("t", 0, batch("a")), ("t", 1, batch("b")))
        coordinator = Coordinator(
            world.memory_log, ClusterState(), rng=Random(7), wall_clock=lambda: NOW_MS / 1000
        )
        nursery.start_soon(coordinator.run)
        await coordinator.catch_up()
        made = TellsItsEnd(world.store, next_attempt=lambda: 1)
        settings = MergeSettings(rest_ms=0, patience_ms=0)
        driver = Driver(
            coordinator,
            made,
            settings,
            rng=Random(8),
            software_version="1",
            on_progress=give_up,
        )
        await driver.register()
        with pytest.raises(CoordinatorUnavailable) as caught:
            await driver.run_once()
        assert caught.tb is not None  # its frames keep the run of tasks from the garbage collector
        assert made.is_closed
        nursery.cancel_scope.cancel()


# -- deletions ------------------------------------------------------------------------------------


def test_objects_that_no_entry_names_may_be_deleted() -> None:
    complaints: list[str] = []
    watch = DeletionWatch(lambda kind, _: complaints.append(kind), grace_ms=0, has_backups=True)
    watch.deleted(["c/1/wal/z/1-1/000000000000"])
    assert not complaints
