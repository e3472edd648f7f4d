"""Runs tasks in this process, some at a time: for simulation, for tests, for small machines."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

import trio

from tidegate_storage.stores.object_store import ObjectStore

from ..tasks.merge_task import run_task
from ..tasks.work import MergeTask, UnitResult


class LocalRunner:
    """See Runner.  next_attempt: returns a number that no other execution of a task has."""

    def __init__(
        self, store: ObjectStore, *, next_attempt: Callable[[], int], at_once: int = 2
    ) -> None:
        self._store = store
        self._next_attempt = next_attempt
        self._at_once = at_once

    async def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        """See Runner."""
        for start in range(0, len(tasks), self._at_once):
            results: list[UnitResult] = []
            async with trio.open_nursery() as nursery:
                for task in tasks[start : start + self._at_once]:
                    nursery.start_soon(self._do, task, results)
            for result in results:
                yield result

    async def _do(self, task: MergeTask, results: list[UnitResult]) -> None:
        results += await run_task(self._store, task, self._next_attempt())
