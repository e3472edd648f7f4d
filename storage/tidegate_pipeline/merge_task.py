"""A task of the merge: read runs and segments, write one segment a unit, store to store.

Units of a task read the same WAL objects, so what lies close together in one comes in one GET.
Bytes are verified as a fetch verifies them before they are copied, and once more from the finished
segment: what was read, by count and digest, is what will be served.  An object that is missing or
damaged fails its unit alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from struct import Struct

from tidegate_coordination.events import Segment
from tidegate_protocol.batches import CRC_POSITION, HEADER
from tidegate_storage.corrupt import CorruptObject
from tidegate_storage.keys import segment_key
from tidegate_storage.object_store import (
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
    put_idempotent,
)
from tidegate_storage.prepared_runs import (
    CorruptBatches,
    PreparedRun,
    prepare_chunk,
)
from tidegate_storage.segment_format import (
    HEADER_BYTES as SEGMENT_HEADER_BYTES,
)
from tidegate_storage.segment_format import read_segment
from tidegate_storage.segments import FinalBatch, SealedSegment, SegmentBuilder

from .digests import add
from .error_texts import unexpected_text
from .retries import with_retries
from .sources import (
    Place,
    SourceReader,
    Stored,
    UnitFailed,
    aborted_of,
    place,
    runs_of,
)
from .work import MergeTask, MergeUnit, UnitResult

_CRC_FIELD = Struct(">I")


@dataclass(slots=True)
class Proof:
    """What was read or written: batches by digest, records by count."""

    records: int = 0
    digest: int = 0

    def take(self, batch: memoryview, base_offset: int, record_count: int) -> None:
        """Count one batch."""
        (crc,) = _CRC_FIELD.unpack_from(batch, CRC_POSITION)
        self.digest = add(self.digest, base_offset, crc)
        self.records += record_count


async def run_task(store: ObjectStore, task: MergeTask, attempt: int) -> list[UnitResult]:
    """Do all units of a task; what goes wrong with one is told in its result.

    attempt: unlike those of all other executions of tasks of this driver.
    """
    reader = SourceReader(store)
    read = await reader.read([source for unit in task.units for source in unit.sources])
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
        for source in unit.sources:
            gets += read[place(source)].gets
        sealed, proof = _build(task, unit, read)
        await _put(store, task, unit, sealed, attempt)
    except (UnitFailed, StoreMisconfigured, StoreUnavailable, ObjectExists) as error:
        return failed(unit, str(error) or repr(error), gets)
    except Exception as error:
        # A mistake of ours, or bytes that nobody thought of: others go on.
        return failed(unit, unexpected_text(error), gets)
    segment = Segment(
        attempt,
        len(sealed.body),
        SEGMENT_HEADER_BYTES + sealed.length,
        sealed.length,
        unit.base_offset,
        unit.next_offset,
        sealed.max_timestamp,
        sealed.index.check,
    )
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
        stored = read[place(source)]
        for run in runs_of(unit.topic_id, unit.partition, source, stored):
            for batch in _batches(run):
                builder.append(batch)
                base_offset = HEADER.unpack_from(batch.data)[0]
                before.take(memoryview(batch.data), base_offset, batch.record_count)
        for transaction in aborted_of(source, stored):
            builder.add_aborted(transaction)
    sealed = builder.seal(unit.next_offset)
    after = prove(sealed.body)
    if after != before:
        raise UnitFailed(
            f"{before.records} records were read and {after.records} written of offsets"
            f" {unit.base_offset} to {unit.next_offset}: nothing was published"
        )
    return sealed, after


def prove(body: bytearray) -> Proof:
    """Read a finished segment as a reader would; return what is in it.

    Raises:
      UnitFailed: it could not be read back.
    """
    proof = Proof()
    view = memoryview(body)
    try:
        for chunk in read_segment(body).chunks:
            region = view[chunk.position : chunk.position + chunk.length]
            run = prepare_chunk(region, chunk)
            for at in range(len(run)):
                batch = run.batch(at)
                header = HEADER.unpack_from(batch)
                proof.take(batch, header[0], header[-1])
    except (CorruptObject, CorruptBatches) as error:
        raise UnitFailed(f"the segment just written cannot be read back: {error}") from error
    return proof


def _batches(run: PreparedRun) -> Iterator[FinalBatch]:
    for at in range(len(run)):
        data = run.batch(at)
        header = HEADER.unpack_from(data)
        yield FinalBatch(data, header[0] + header[6] + 1, header[12], header[8])


async def _put(
    store: ObjectStore, task: MergeTask, unit: MergeUnit, sealed: SealedSegment, attempt: int
) -> None:
    key = segment_key(
        task.cluster_id,
        task.timeline,
        unit.topic_id,
        unit.partition,
        unit.base_offset,
        task.incarnation,
        attempt,
    )
    await with_retries(lambda: put_idempotent(store, key, sealed.body))
