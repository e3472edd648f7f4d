"""Stops all tasks of a gateway while the world goes on, as SIGSTOP stops a process.

A stopped task stays where it is: what wakes it (an answer, a deadline, a cancellation) is kept, and
reaches it when its gateway goes on.  Trio has no such thing, so this reaches for its private queue
of runnable tasks; lab/tests/simulation/test_faults.py notices a release of Trio that changes it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import trio


class Stalls(trio.abc.Instrument):
    """The gateways that stand still, each by the task that all of its tasks descend from."""

    def __init__(self) -> None:
        self._stopped: dict[trio.lowlevel.Task, list[trio.lowlevel.Task]] = {}
        self._context: Any = import_module("trio._core._run").GLOBAL_RUN_CONTEXT

    def stop(self, root: trio.lowlevel.Task) -> None:
        """Let no task under root make a step, from its next checkpoint on."""
        if not self._stopped:
            trio.lowlevel.add_instrument(self)
        self._stopped.setdefault(root, [])

    def go_on(self, root: trio.lowlevel.Task) -> None:
        """Let them go on; no effect when they do."""
        waiting = self._stopped.pop(root, None)
        if waiting is None:
            return
        if not self._stopped:
            trio.lowlevel.remove_instrument(self)
        self._context.runner.runq.extend(waiting)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """See trio.abc.Instrument: the task was put into the queue just now."""
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
