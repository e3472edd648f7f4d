"""Writes segments, and proves their content."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_coordination.events.cluster import Segment
from tidegate_protocol.batches import HEADER
from tidegate_storage.objects.corrupt import CorruptObject
from tidegate_storage.objects.keys import segment_key
from tidegate_storage.objects.prepared_runs import CorruptBatches, prepare_chunk
from tidegate_storage.objects.segment_format import HEADER_BYTES, segment_index
from tidegate_storage.objects.segments import FinalBatch, SealedSegment
from tidegate_storage.stores.object_store import ObjectStore, put_idempotent

from .digests import add
from .retries import with_retries
from .sources import UnitFailed
from .work import MergeTask, MergeUnit


@dataclass(slots=True)
class Proof:
    """The batches read or written, as a digest, and their records, as a count."""

    records: int = 0
    digest: int = 0

    def take(self, base_offset: int, crc: int, record_count: int) -> None:
        """Count one batch; crc: the one in its header."""
        self.digest = add(self.digest, base_offset, crc)
        self.records += record_count


def prove(body: bytearray) -> Proof:
    """Read a finished segment as a reader would; return digest and count of its batches.

    Raises:
      UnitFailed: the segment could not be read back.
    """
    proof = Proof()
    view = memoryview(body)
    try:
        for chunk in segment_index(body).chunks:
            region = view[chunk.position : chunk.position + chunk.length]
            run = prepare_chunk(region, chunk)
            for start in run.starts[:-1]:
                header = HEADER.unpack_from(region, start)
                proof.take(header[0], header[4], header[-1])
    except (CorruptObject, CorruptBatches) as error:
        raise UnitFailed(f"the segment just written cannot be read back: {error}") from error
    return proof


def final_batch(batch: memoryview, proof: Proof | None = None, *, bound_ms: int = -1) -> FinalBatch:
    """Return a batch for a segment, unchanged; proof: counts it.

    bound_ms: see PreparedRun.  The index then has bound_ms as the batch's time, so that a search by
    time looks into the chunk, although no record of the batch may be as late.
    """
    header = HEADER.unpack_from(batch)
    base_offset, record_count = header[0], header[12]
    if proof is not None:
        proof.take(base_offset, header[4], record_count)
    # Compaction leaves batches without records, with the time of the removed records.
    newest_ms = (bound_ms if bound_ms >= 0 else header[8]) if record_count else -1
    return FinalBatch(batch, base_offset + header[6] + 1, record_count, newest_ms)


async def put_segment(
    store: ObjectStore,
    task: MergeTask,
    unit: MergeUnit,
    base_offset: int,
    sealed: SealedSegment,
    attempt: int,
) -> Segment:
    """Store a segment that begins at base_offset; return its facts for the cluster state.

    Raises:
      StoreMisconfigured, StoreUnavailable, ObjectExists: the store may not hold this segment.
    """
    key = segment_key(
        task.cluster_id,
        task.timeline,
        unit.topic_id,
        unit.partition,
        base_offset,
        task.incarnation,
        attempt,
    )
    await with_retries(lambda: put_idempotent(store, key, sealed.body))
    return Segment(
        attempt,
        len(sealed.body),
        HEADER_BYTES + sealed.length,
        sealed.length,
        base_offset,
        sealed.index.next_offset,
        sealed.max_timestamp,
        sealed.index.check,
    )
