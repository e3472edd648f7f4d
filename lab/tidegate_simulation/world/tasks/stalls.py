"""Stops all tasks of a gateway while the world continues, as SIGSTOP stops a process.

A stopped task keeps its wake-up (an answer, a deadline, a cancellation) and gets it when its
gateway continues.  Trio has no such function, so this module uses its private queue of runnable
tasks. lab/tests/simulation/test_faults.py notices a release of Trio that changes the queue.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import trio


class Stalls(trio.abc.Instrument):
    """The stalled gateways, each by the root of its tasks."""

    def __init__(self) -> None:
        self._stopped: dict[trio.lowlevel.Task, list[trio.lowlevel.Task]] = {}
        self._context: Any = import_module("trio._core._run").GLOBAL_RUN_CONTEXT

    def stop(self, root: trio.lowlevel.Task) -> None:
        """Let no task under root make a step after its next checkpoint."""
        if not self._stopped:
            trio.lowlevel.add_instrument(self)
        self._stopped.setdefault(root, [])

    def go_on(self, root: trio.lowlevel.Task) -> None:
        """Resume the tasks under root; no effect if they run."""
        waiting = self._stopped.pop(root, None)
        if waiting is None:
            return
        if not self._stopped:
            trio.lowlevel.remove_instrument(self)
        self._context.runner.runq.extend(waiting)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """See trio.abc.Instrument: Trio has just put the task into the queue."""
        root = self._root(task)
        if root is not None:
            taken = self._context.runner.runq.pop()
            assert taken is task
            self._stopped[root].append(task)

    def _root(self, task: trio.lowlevel.Task | None) -> trio.lowlevel.Task | None:
        while task is not None and task not in self._stopped:
            nursery = task.parent_nursery
            task = nursery.parent_task if nursery is not None else None
        return task
