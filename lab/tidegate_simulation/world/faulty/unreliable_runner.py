"""A Runner whose tasks fail as on a cluster: they run twice, late, without effect, or are lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from random import Random

import trio

from tidegate_pipeline.tasks.merge_task import run_task
from tidegate_pipeline.tasks.work import MergeTask, UnitResult
from tidegate_storage.stores.object_store import ObjectStore

from ...plans.pipeline_plan import PREFIX, TaskFaults
from .store import Ledger


class UnreliableRunner:
    """See Runner and the module's head.

    Args:
      life: the nursery of second executions, whose results no driver waits for.
      next_attempt: returns a number that no other execution has.
      faults: the current rates.
      complain: called with the kind and the text of a violation.
    """

    def __init__(
        self,
        store: ObjectStore,
        life: trio.Nursery,
        *,
        next_attempt: Callable[[], int],
        at_once: int,
        faults: Callable[[], TaskFaults],
        rng: Random,
        ledger: Ledger,
        complain: Callable[[str, str], None],
    ) -> None:
        self._begun = trio.Event()
        self._store = store
        self._life = life
        self._next_attempt = next_attempt
        self._at_once = at_once
        self._faults = faults
        self._rng = rng
        self._ledger = ledger
        self._complain = complain

    async def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        """See Runner."""
        for start in range(0, len(tasks), self._at_once):
            results: list[UnitResult] = []
            begun, self._begun = self._begun, trio.Event()
            begun.set()
            async with trio.open_nursery() as nursery:
                for task in tasks[start : start + self._at_once]:
                    nursery.start_soon(self._do, task, results)
            for result in results:
                yield result

    async def next_task(self) -> None:
        """Wait until a task begins."""
        await self._begun.wait()

    async def _do(self, task: MergeTask, results: list[UnitResult]) -> None:
        if self._strikes("failed_task"):
            results += [_failed(unit.number) for unit in task.units]
            return
        is_twice, is_slow, is_lost = map(self._strikes, ("twice", "slow_task", "lost_task"))
        done = await (self._twice if is_twice else self._once)(task)
        if is_slow:
            await trio.sleep(self._rng.random() * self._faults().slow_seconds)
        if not is_lost:
            results += done

    async def _once(self, task: MergeTask) -> list[UnitResult]:
        done = await run_task(self._store, task, self._next_attempt())
        for result in done:
            if "unexpected" in result.error:
                self._complain("internal error", result.error)
        told = [each.asked for each in done if each.asked is not None]
        written = sum(len(each.segments) for each in done)
        if len(told) != 1 or told[0].requests.get("put segments", 0) < written:
            self._complain("costs", f"{written} segments were written, and {told} were asked")
        return done

    async def _twice(self, task: MergeTask) -> list[UnitResult]:
        """Run a task twice, as speculation does: one result counts; the other may arrive later."""
        if self._rng.random() < 0.5:
            self._life.start_soon(self._late, task)
            return await self._once(task)
        done: list[list[UnitResult]] = []

        async def do() -> None:
            done.append(await self._once(task))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(do)
            nursery.start_soon(do)
        return self._rng.choice(done)

    async def _late(self, task: MergeTask) -> None:
        await trio.sleep(self._rng.random() * self._faults().slow_seconds)
        await self._once(task)

    def _strikes(self, kind: str) -> bool:
        rate: float = getattr(self._faults(), kind)
        strikes = self._rng.random() < rate or self._ledger.is_due(f"{PREFIX}{kind}")
        self._ledger.count(f"{PREFIX}{kind}", strikes)
        return strikes


def _failed(number: int) -> UnitResult:
    return UnitResult(number, (), 0, 0, 0, 0, "injected: failed_task")
