"""A task: read runs and segments, write segments, store to store.

Units of a merge read the same WAL objects, so one GET reads all runs that lie close together.
The task verifies bytes as a fetch does before it copies them, and again in the finished segment:
count and digest prove that the segment holds the batches that were read.  A missing or damaged
object fails only its units.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidegate_storage.objects.cost_sums import KindBook
from tidegate_storage.objects.segment_format import AbortedTransaction
from tidegate_storage.objects.segments import SealedSegment, SegmentBuilder
from tidegate_storage.stores.counting_store import CountingStore
from tidegate_storage.stores.object_store import (
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)

from .compact_task import compact_unit
from .error_texts import unexpected_text
from .segment_writing import Proof, final_batch, prove, put_segment
from .sources import (
    Place,
    SourceReader,
    Stored,
    UnitFailed,
    aborted_of,
    place,
    runs_of,
    stored_of,
)
from .work import Asked, MergeTask, MergeUnit, UnitResult


async def run_task(store: ObjectStore, task: MergeTask, attempt: int) -> list[UnitResult]:
    """Do all units of a task; the result of a failed unit holds its error.

    attempt: unique among all executions of this driver's tasks.
    """
    book = KindBook()
    first, *others = await _do_all(CountingStore(store, book), task, attempt)
    asked = Asked(dict(book.requests), dict(book.stored_bytes), dict(book.got_bytes))
    return [msgspec.structs.replace(first, asked=asked), *others]


async def _do_all(store: ObjectStore, task: MergeTask, attempt: int) -> list[UnitResult]:
    reader = SourceReader(store)
    # Units of compaction read source by source, since a unit may be larger than memory.
    merges = [unit for unit in task.units if unit.rules is None]
    read = await reader.read([source for unit in merges for source in unit.sources])
    results: list[UnitResult] = []
    for unit in task.units:
        results.append(await _do(store, task, unit, read, attempt))
        for source in unit.sources:
            read.pop(place(source), None)
    return results


def failed(unit: MergeUnit, error: str, gets: float = 0) -> UnitResult:
    """Return the result of a unit that was not done."""
    return UnitResult(unit.number, (), 0, 0, 0, gets, error)


async def _do(
    store: ObjectStore,
    task: MergeTask,
    unit: MergeUnit,
    read: Mapping[Place, Stored],
    attempt: int,
) -> UnitResult:
    gets = 0.0
    try:
        if unit.rules is not None:
            return await compact_unit(store, task, unit, unit.rules, attempt)
        for source in unit.sources:
            gets += stored_of(read, source).gets
        sealed, proof = _build(task, unit, read)
        segment = await put_segment(store, task, unit, unit.base_offset, sealed, attempt)
    except (UnitFailed, StoreMisconfigured, StoreUnavailable, ObjectExists) as error:
        return failed(unit, str(error) or repr(error), gets)
    except Exception as error:
        # A programming error, or unexpected bytes: the other units continue.
        return failed(unit, unexpected_text(error), gets)
    return UnitResult(unit.number, (segment,), proof.records, proof.digest, unit.size_bytes, gets)


def _build(
    task: MergeTask, unit: MergeUnit, read: Mapping[Place, Stored]
) -> tuple[SealedSegment, Proof]:
    """Copy all batches of a unit, and prove it."""
    builder = SegmentBuilder(
        unit.topic_id, unit.partition, unit.base_offset, chunk_bytes=task.chunk_bytes
    )
    before = Proof()
    for source in unit.sources:
        stored = stored_of(read, source)
        for run in runs_of(unit.topic_id, unit.partition, source, stored):
            for at in range(len(run)):
                builder.append(final_batch(run.batch(at), before, bound_ms=run.bound_ms))
        for transaction in aborted_of(source, stored):
            builder.add_aborted(transaction)
    for row in unit.aborted:
        builder.add_aborted(AbortedTransaction(*row))
    sealed = builder.seal(unit.next_offset)
    after = prove(sealed.body)
    if after != before:
        raise UnitFailed(
            f"{before.records} records were read and {after.records} written of offsets"
            f" {unit.base_offset} to {unit.next_offset}: nothing was published"
        )
    return sealed, after
