"""The code that runs in Spark's workers: rows with one task each become rows with one result each.

A worker runs many tasks one after another, so it keeps the store open.  Neither this module nor its
imports use the gateway or the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import trio
from pyspark import TaskContext

from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore

from ..tasks.error_texts import error_text
from ..tasks.memory import keep_memory
from ..tasks.merge_task import failed, run_task
from ..tasks.work import MergeTask, UnitResult
from .arrow_rows import Batch, batch_of, cells_of

TASK_COLUMN: Final = "task"
RESULT_COLUMN: Final = "result"
RESULT_SCHEMA: Final = f"{RESULT_COLUMN} binary"

# The open stores of this worker process, by URL.
_stores: dict[str, ObjectStore] = {}


@dataclass(frozen=True, slots=True)
class SparkTask:
    """The function that mapInArrow calls.

    first_attempt: added to Spark's own attempt number, which starts at 0 in every context.
    """

    store_url: str
    first_attempt: int

    def __call__(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Do each row's task; if this raises, Spark tries again."""
        context = TaskContext.get()
        attempt = self.first_attempt + (context.taskAttemptId() if context is not None else 0)
        for batch in batches:
            for cell in cells_of(TASK_COLUMN, batch):
                results = do_task(self.store_url, MergeTask.decode(cell), attempt)
                yield batch_of(RESULT_COLUMN, [result.encode() for result in results])


def do_task(store_url: str, task: MergeTask, attempt: int) -> list[UnitResult]:
    """Do a task in this process; errors are in the results of its units."""
    if not _stores:
        _ = keep_memory()
    try:
        store = _stores.get(store_url) or _stores.setdefault(store_url, open_store(store_url))
    except Exception as error:
        return [failed(unit, error_text(error)) for unit in task.units]
    results = trio.run(run_task, store, task, attempt)
    if any(result.error for result in results):
        # Calls to this store may hang and hold its threads, so the next task opens it again.
        _stores.pop(store_url, None)
    return results
