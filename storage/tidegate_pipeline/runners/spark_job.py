"""One row as a job of Spark's, in a thread; a cancellation ends the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import structlog
import trio

from ..tasks.error_texts import error_text
from .arrow_rows import Batch
from .spark_session import RunningSpark
from .spark_texts import lost_task_text

_log = structlog.get_logger("tidegate.pipeline.spark")

CANCEL_AGAIN_SECONDS: Final = 0.2

RowFunction: TypeAlias = Callable[[Iterator[Batch]], Iterator[Batch]]
"""The function that mapInArrow calls in a worker."""


class SparkJob:
    """One row as a job of Spark's; tag: unique."""

    def __init__(self, spark: RunningSpark, tag: str, row: bytes) -> None:
        self._row = row
        self.spark = spark
        self._tag = tag
        self._done = trio.Event()

    async def run(self, function: RowFunction) -> list[bytes] | Exception:
        """Return the rows of results, or the error that Spark raised."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cancel_with_us)
            try:
                results = await trio.to_thread.run_sync(self._run, function)
            finally:
                # The event is also set if the job was cancelled before its thread started.
                self._done.set()
        return results

    async def _cancel_with_us(self) -> None:
        """When this task is cancelled, cancel the job in Spark repeatedly until it ends."""
        try:
            await self._done.wait()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                while not self._done.is_set():
                    await trio.to_thread.run_sync(self._cancel)
                    with trio.move_on_after(CANCEL_AGAIN_SECONDS):
                        await self._done.wait()
            raise

    def _cancel(self) -> None:
        try:
            self.spark.session.sparkContext.cancelJobsWithTag(self._tag)
        except Exception as error:
            # The JVM has ended, and so has the job: the job's thread gets an error by itself.
            _log.info("could not cancel a job", error=error_text(error))

    def _run(self, function: RowFunction) -> list[bytes] | Exception:
        context = self.spark.session.sparkContext
        try:
            context.addJobTag(self._tag)
            try:
                return self.spark.run_rows(self._row, function)
            finally:
                context.removeJobTag(self._tag)
        except Exception as error:
            return error


async def tell_of_lost_task(spark: RunningSpark, error: Exception, units: int) -> None:
    """Log why a task of some units was lost, and how Spark's JVM ended, if it did."""
    words = await trio.to_thread.run_sync(spark.last_words)
    more = {"java": words} if words else {}
    _log.error("a task was lost", units=units, error=lost_task_text(error, spark.python), **more)
