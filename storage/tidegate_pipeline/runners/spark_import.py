"""Runs tasks of an import on Spark: a job of one row for each; see spark_runner.py.

A worker opens the source for each task, and keeps the object store open.  The pickled function
holds the source's addresses and secrets.  Spark's own settings decide whether this function is
encrypted on the way to executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import trio

from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore

from ..importing.copying import run_import
from ..importing.readers import Origin
from ..importing.work import Ending, ImportTask, ImportUnit, UnitDone
from ..tasks.error_texts import error_text
from ..tasks.memory import keep_memory
from .arrow_rows import Batch, batch_of, cells_of
from .spark_job import SparkJob, tell_of_lost_task
from .spark_session import ResidentSpark, RunningSpark
from .spark_task import RESULT_COLUMN, TASK_COLUMN
from .spark_texts import noted_text
from .spark_trouble import NoSpark

# The open stores of this worker process, by URL.
_stores: dict[str, ObjectStore] = {}


@dataclass(frozen=True)
class SparkImport:
    """The function that mapInArrow calls."""

    store_url: str
    origin: Origin

    def __call__(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Do each row's task; if this raises, Spark tries again."""
        for batch in batches:
            for cell in cells_of(TASK_COLUMN, batch):
                done = self._do(ImportTask.decode(cell))
                yield batch_of(RESULT_COLUMN, [each.encode() for each in done])

    def _do(self, task: ImportTask) -> Sequence[UnitDone]:
        if not _stores:
            _ = keep_memory()
        url = self.store_url
        try:
            store = _stores.get(url) or _stores.setdefault(url, open_store(url))
        except Exception as error:
            return [_failed(each, error_text(error)) for each in task.units]
        done = trio.run(run_import, store, self.origin, task)
        if any(each.ending is Ending.FAILED for each in done):
            # Calls to this store may hang and hold its threads, so the next task opens it again.
            _stores.pop(url, None)
        return done


def _failed(unit: ImportUnit, text: str) -> UnitDone:
    return UnitDone(unit.number, Ending.FAILED, unit.start, text=text)


class SparkImportRunner:
    """See ImportRunner."""

    def __init__(self, store_url: str, origin: Origin, resident: ResidentSpark) -> None:
        self._function = SparkImport(store_url, origin)
        self._resident = resident
        self._numbers = count(1)

    async def slots(self) -> int:
        """See ImportRunner.

        Raises:
          NoSpark: Spark does not start.
        """
        spark = await self._running()
        return await trio.to_thread.run_sync(spark.slots)

    async def run(self, task: ImportTask) -> Sequence[UnitDone]:
        """See ImportRunner.

        Raises:
          NoSpark: Spark has ended, and does not start again.
        """
        spark = await self._running()
        rows = await SparkJob(spark, f"tidegate-import-{next(self._numbers)}", task.encode()).run(
            self._function
        )
        if isinstance(rows, Exception):
            await tell_of_lost_task(spark, rows, len(task.units))
            return ()
        return [UnitDone.decode(each) for each in rows]

    async def _running(self) -> RunningSpark:
        try:
            return await trio.to_thread.run_sync(self._resident.running)
        except Exception as error:
            raise NoSpark(f"Spark does not start: {noted_text(error)}") from error
