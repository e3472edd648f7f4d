"""Runs tasks on Spark: a job of one row for each, as many at once as there are slots.

    MergeTask --createDataFrame--> one row --mapInArrow--> rows of results --toArrow--> UnitResult

Each task is a separate job: `toLocalIterator` runs the partitions of one job one after another, and
other actions return nothing before the last task is done.  So each result is returned as soon as it
is ready, and a failed task loses only its own units.  A job costs the driver some 50 ms.

Jobs run in threads.  After a cancellation the thread stays until Spark has ended the job, so Spark
starts no task later.  A task that has started may write for a while; its segments have unique
names, and are orphans.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog
import trio

from ..tasks.work import MergeTask, UnitResult
from .spark_job import SparkJob, tell_of_lost_task
from .spark_session import ResidentSpark, RunningSpark
from .spark_task import SparkTask
from .spark_texts import noted_text
from .spark_trouble import AttemptsUsedUp, NoSpark

_log = structlog.get_logger("tidegate.pipeline.spark")

# Jobs above the number of slots, so that Spark has already planned a next task when one ends.
JOBS_BEYOND_SLOTS: Final = 1
# The most attempts whose results the driver may have missed when it restarts a session.
UNSEEN_ATTEMPTS: Final = 1 << 16
# The largest number that segment names and the log can hold.
MAX_ATTEMPT: Final = (1 << 32) - 1


@dataclass(eq=False, slots=True)
class _Batch:
    """The tasks of one run().  trouble: the error to raise in its caller."""

    tag: str
    tasks: Sequence[MergeTask]
    results: trio.MemorySendChannel[UnitResult]
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    trouble: NoSpark | AttemptsUsedUp | None = None


class SparkRunner:
    """See the module's head, and Runner.  Made by spark_runner()."""

    def __init__(self, store_url: str, resident: ResidentSpark, nursery: trio.Nursery) -> None:
        self._store_url = store_url
        self._resident = resident
        self._nursery = nursery
        self._spark: RunningSpark | None = None
        self._batches: set[_Batch] = set()
        self._batch_count = 0
        self._first_attempt = 0
        self._last_attempt = 0
        self._is_stopped = False

    async def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        """See Runner.

        Raises:
          NoSpark: the first start failed, so further starts would fail, too.
          AttemptsUsedUp: register another incarnation.
        """
        if not tasks or self._is_stopped:
            return
        self._batch_count += 1
        units = sum(len(task.units) for task in tasks)
        send, receive = trio.open_memory_channel[UnitResult](units)
        batch = _Batch(f"tidegate-{self._batch_count}", tasks, send)
        self._nursery.start_soon(self._do_batch, batch)
        try:
            async for result in receive:
                yield result
        finally:
            # This also runs if the caller closes the generator early.
            batch.scope.cancel()
            receive.close()
        if batch.trouble is not None:
            raise batch.trouble

    def stop(self) -> None:
        """End all runs, even later ones: present results stay, jobs under way are cancelled."""
        self._is_stopped = True
        for batch in self._batches:
            batch.scope.cancel()

    async def _do_batch(self, batch: _Batch) -> None:
        self._batches.add(batch)
        try:
            with batch.results, batch.scope:
                spark = await self._session()
                count = await trio.to_thread.run_sync(spark.slots)
                slots = trio.Semaphore(_jobs_at_once(batch.tasks, count))
                async with trio.open_nursery() as nursery:
                    for number, task in enumerate(batch.tasks):
                        await slots.acquire()
                        job = SparkJob(spark, f"{batch.tag}-{number}", task.encode())
                        nursery.start_soon(self._do_task, job, task, batch, slots)
        except (NoSpark, AttemptsUsedUp) as error:
            batch.trouble = error
        except Exception as error:
            # The driver plans lost units again and reports them.
            _log.error("Spark could not run tasks", error=noted_text(error))
        finally:
            self._batches.discard(batch)

    async def _session(self) -> RunningSpark:
        try:
            spark = await trio.to_thread.run_sync(self._resident.running)
        except Exception as error:
            if self._spark is None and not self._is_stopped:
                raise NoSpark(f"Spark does not start: {noted_text(error)}") from error
            raise
        highest = max(self._first_attempt, self._last_attempt)
        if self._spark is not None and spark is not self._spark:
            # A new session numbers attempts from 0 again.
            self._first_attempt = highest = highest + UNSEEN_ATTEMPTS
        self._spark = spark
        if highest > MAX_ATTEMPT - UNSEEN_ATTEMPTS:
            # The next incarnation numbers its attempts from 0, and so does a new session.
            self._first_attempt = self._last_attempt = 0
            await trio.to_thread.run_sync(self._resident.close)
            self._spark = None
            raise AttemptsUsedUp("all attempt numbers are used up; starting another incarnation")
        return spark

    async def _do_task(
        self, job: SparkJob, task: MergeTask, batch: _Batch, slots: trio.Semaphore
    ) -> None:
        function = SparkTask(self._store_url, self._first_attempt)
        try:
            rows = await job.run(function)
        finally:
            slots.release()
        if isinstance(rows, Exception):
            await tell_of_lost_task(job.spark, rows, len(task.units))
            return
        for result in map(UnitResult.decode, rows):
            self._note_attempts(result)
            batch.results.send_nowait(result)

    def _note_attempts(self, result: UnitResult) -> None:
        for segment in result.segments:
            self._last_attempt = max(self._last_attempt, segment.attempt)


def _jobs_at_once(tasks: Sequence[MergeTask], slots: int) -> int:
    """Return how many jobs run at once.

    Compaction takes long, so it leaves half of the slots to merges.
    """
    if any(unit.rules is not None for task in tasks for unit in task.units):
        return max(slots // 2, 1)
    return slots + JOBS_BEYOND_SLOTS


@asynccontextmanager
async def spark_runner(
    store_url: str, resident: ResidentSpark
) -> AsyncGenerator[SparkRunner, None]:
    """Yield a runner whose tasks open the store at that URL; at the end cancel its jobs."""
    async with trio.open_nursery() as nursery:
        yield SparkRunner(store_url, resident, nursery)
        nursery.cancel_scope.cancel()
