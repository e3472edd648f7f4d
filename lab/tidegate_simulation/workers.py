"""Runs seeds in processes of their own: a process that dies or hangs costs and reports one seed."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tidegate_runtime.collector import calm_collector

from .checks.checker import Violation
from .plans.faults import Landed
from .run import Report, simulate

# Limits of wall-clock time: for a seed, and in addition for each of its operations.
SECONDS: float = 120.0
SECONDS_PER_OPERATION: float = 2.0
_CONTEXT = get_context("spawn")


@dataclass(slots=True, eq=False)
class _Worker:
    """A process and its present seed."""

    process: BaseProcess
    pipe: Connection
    seed: int
    give_up_at: float


class Workers:
    """Use as a context manager: all processes have ended after it.

    operations: of each seed.  jobs: processes at once.  zones: see simulate().
    """

    def __init__(self, seeds: Iterable[int], operations: int, jobs: int, zones: int = 0) -> None:
        self._seeds = iter(seeds)
        self._operations = operations
        self._jobs = jobs
        self._zones = zones
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers:
        """Start nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all processes."""
        for each in self._workers:
            self._stop(each)

    def reports(self) -> Iterator[Report]:
        """Run all seeds; yield the reports as they arrive, without their traces."""
        for seed in self._seeds:
            self._workers.append(self._start(seed))
            if len(self._workers) == self._jobs:
                break
        while self._workers:
            pipes = {each.pipe: each for each in self._workers}
            for pipe in wait(list(pipes), timeout=1.0):
                assert isinstance(pipe, Connection)
                yield self._take(pipes[pipe])
            for each in [each for each in self._workers if time.monotonic() > each.give_up_at]:
                yield self._replace(each, f"no end after {self._seconds:.0f} s of real time")

    @property
    def _seconds(self) -> float:
        return SECONDS + SECONDS_PER_OPERATION * self._operations

    def _start(self, seed: int) -> _Worker:
        ours, theirs = _pipe()
        arguments = (theirs, self._operations, self._zones)
        process = _CONTEXT.Process(target=_work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        ours.send(seed)
        return _Worker(process, ours, seed, time.monotonic() + self._seconds)

    def _take(self, worker: _Worker) -> Report:
        """Return the report that a worker sent, and give it the next seed."""
        try:
            report: Report = worker.pipe.recv()
        except (EOFError, ConnectionError):
            worker.process.join()
            return self._replace(worker, f"exit code {worker.process.exitcode}")
        seed = next(self._seeds, None)
        if seed is None:
            self._remove(worker)
        else:
            worker.seed, worker.give_up_at = seed, time.monotonic() + self._seconds
            with suppress(ConnectionError):  # the worker has died; the next look finds that
                worker.pipe.send(seed)
        return report

    def _replace(self, worker: _Worker, why: str) -> Report:
        """Kill a worker and drop its seed; another process continues with the rest."""
        self._remove(worker)
        seed = next(self._seeds, None)
        if seed is not None:
            self._workers.append(self._start(seed))
        return _failure(worker.seed, self._operations, self._zones, why)

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._stop(worker)

    def _stop(self, worker: _Worker) -> None:
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()


def _pipe() -> tuple[Connection, Connection]:
    ours, theirs = _CONTEXT.Pipe()
    assert isinstance(ours, Connection)
    assert isinstance(theirs, Connection)
    return ours, theirs


def _work(pipe: Connection, operations: int, zones: int) -> None:
    """Run seeds until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches all processes; the parent decides
    calm_collector()  # with its default thresholds it takes a sixth of a run
    with suppress(EOFError, ConnectionError):
        while True:
            seed: int = pipe.recv()
            pipe.send(replace(simulate(seed, operations, zones), trace=()))
            gc.collect()  # the calm collector would leave 3 MB of cycles a seed


def _failure(seed: int, operations: int, zones: int, why: str) -> Report:
    return Report(
        seed=seed,
        operations=operations,
        operations_done=0,
        virtual_seconds=0.0,
        entries=0,
        lives=0,
        landed=Landed({}, ()),
        violations=(Violation("the process failed", why),),
        trace=(),
        zones=zones,
    )
