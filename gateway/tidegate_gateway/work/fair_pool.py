"""A bounded pool of threads in which clients take turns; see fair_turns.py.

A job is a function that computes for a millisecond or longer.  No request waits for a thread after
its client has left: a waiting job leaves the line, and a running job is asked to stop.  A running
job keeps its thread until it stops, so a long job calls should_stop() between slices of its work.
The CPU time of a job counts as request time in its client's quota.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import trio
from outcome import Error

from ..network.receiver import CloseConnection
from .client import Client
from .fair_turns import Bounds, FairTurns, QueueFull

if TYPE_CHECKING:
    from outcome import Outcome

Result = TypeVar("Result")

MAX_WAITING: Final = Bounds(1_000, 64 << 20)
MAX_OF_CLIENT: Final = Bounds(100, 32 << 20)
WAIT_SECONDS: Final = 20.0
"""Until a job has ended; clients wait for 30 seconds by default."""
LOOK_SECONDS: Final = 0.2
"""How often a request that waits looks whether its client has left."""

ShouldStop: TypeAlias = Callable[[], bool]
"""Returns whether the result is of no use any more; a job calls it in its thread."""
OnEnd: TypeAlias = Callable[["Outcome[Any]", float], None]
"""Takes the outcome of work and the processor time that it used, in the event loop."""
Start: TypeAlias = Callable[[Callable[[], Any], OnEnd], None]
"""Begins work, in a thread or in the place of one."""


class PoolBusy(Exception):
    """The pool has no room for a job, or the job took too long.  Answer a retriable error."""


@dataclass(slots=True)
class PoolCounters:
    """Counts of a pool: jobs that began, jobs that were refused, and CPU time."""

    jobs: int = 0
    refused: int = 0
    seconds: float = 0.0


class _Job(Generic[Result]):
    """A job that waits, runs, or has ended.

    is_stopped: set by the event loop, and read by the thread.  outcome: None before the job ends,
    and for a job that lost its place.
    """

    def __init__(
        self, client: Client, function: Callable[[ShouldStop], Result], size_bytes: int
    ) -> None:
        self.client: Final = client
        self.size_bytes: Final = size_bytes
        self.ended: Final = trio.Event()
        self.outcome: Outcome[Result] | None = None
        self.is_running = False
        self.is_stopped = False
        self._function: Final = function

    def work(self) -> Result:
        """Call the function."""
        return self._function(lambda: self.is_stopped)


class FairPool:
    """See the module's head.  start: see Start."""

    def __init__(self, start: Start, max_threads: int) -> None:
        self.counters: Final = PoolCounters()
        self._start: Final = start
        self._turns: Final = FairTurns[_Job[Any]](max_threads, MAX_WAITING, MAX_OF_CLIENT)

    @property
    def waiting(self) -> int:
        """Return how many jobs wait for a thread."""
        return len(self._turns)

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes the waiting jobs hold."""
        return self._turns.size_bytes

    def of(self, client: Client) -> ClientPool:
        """Return the pool for the work of one client."""
        return ClientPool(self, client)

    async def run(
        self, client: Client, function: Callable[[ShouldStop], Result], size_bytes: int = 0
    ) -> Result:
        """Return the function's result, or raise its error.

        size_bytes: what the job holds while it waits.

        Raises:
          PoolBusy: there is no room, or the job has not ended within WAIT_SECONDS.
          CloseConnection: the client is gone.
        """
        job = _Job(client, function, size_bytes)
        self._add(job)
        try:
            self._start_next()
            await self._wait(job)
        finally:
            self._leave(job)
        if job.outcome is None:
            raise PoolBusy("other jobs of this client wait already")
        return job.outcome.unwrap()

    def _add(self, job: _Job[Any]) -> None:
        try:
            losers = self._turns.add(job.client.key, job, job.size_bytes)
        except QueueFull:
            self.counters.refused += 1
            raise PoolBusy("too many jobs wait already") from None
        for loser in losers:
            self.counters.refused += 1
            loser.ended.set()

    async def _wait(self, job: _Job[Any]) -> None:
        deadline = trio.current_time() + WAIT_SECONDS
        while True:
            with trio.move_on_after(LOOK_SECONDS):
                return await job.ended.wait()
            if job.client.is_gone():
                raise CloseConnection()
            if trio.current_time() >= deadline:
                self.counters.refused += 1
                raise PoolBusy(f"the job has not ended within {WAIT_SECONDS:.0f} s")

    def _leave(self, job: _Job[Any]) -> None:
        job.is_stopped = True
        if not job.is_running and not job.ended.is_set():
            self._turns.leave(job.client.key, job)

    def _start_next(self) -> None:
        while (job := self._turns.next()) is not None:
            job.is_running = True
            try:
                self._start(job.work, partial(self._end, job))
                self.counters.jobs += 1
            except RuntimeError as error:  # the system cannot start another thread
                self.counters.refused += 1
                job.outcome = Error(PoolBusy(str(error)))
                job.ended.set()
                self._turns.done(job.client.key)

    def _end(self, job: _Job[Any], outcome: Outcome[Any], seconds: float) -> None:
        """Note the end of a running job."""
        self.counters.seconds += seconds
        if job.client.cost is not None:
            job.client.cost.spend_seconds(seconds, int(trio.current_time() * 1_000))
        job.outcome = outcome
        job.ended.set()
        self._turns.done(job.client.key)
        self._start_next()


@dataclass(frozen=True, slots=True)
class ClientPool:
    """A pool for the work of one client."""

    pool: FairPool
    client: Client

    async def run(self, function: Callable[[ShouldStop], Result], size_bytes: int = 0) -> Result:
        """See FairPool.run."""
        return await self.pool.run(self.client, function, size_bytes)


def in_thread(work: Callable[[], Any], on_end: OnEnd) -> None:
    """Begin work in a thread; see Start."""
    token = trio.lowlevel.current_trio_token()
    seconds = 0.0

    def timed() -> Any:
        nonlocal seconds
        began = thread_time()
        try:
            return work()
        finally:
            seconds = thread_time() - began

    def deliver(outcome: Outcome[Any]) -> None:
        try:
            token.run_sync_soon(on_end, outcome, seconds)
        except trio.RunFinishedError:
            return  # the process is ending, and no request waits any more

    trio.lowlevel.start_thread_soon(timed, deliver)
