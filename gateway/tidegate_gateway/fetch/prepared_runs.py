"""Prepares runs of the cluster state, and chunks of segments, for fetches.  Pure."""

from __future__ import annotations

from array import array

from tidegate_coordination.events.cluster import RUN_FINAL, RUN_HEADED, RUN_LOG_APPEND_TIME
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import RunRow
from tidegate_protocol.control_batches import control_batch
from tidegate_storage.objects.prepared_runs import (
    CommittedRun,
    CorruptBatches,
    FileRun,
    PreparedRun,
    prepare_chunk,
    prepare_wal_run,
)
from tidegate_storage.objects.segment_format import Chunk

from .segment_rows import is_chunk

__all__ = ["CorruptRun", "FileRun", "PreparedRun", "chunk_of", "marker_run", "prepare_run"]


class CorruptRun(Exception):
    """The stored bytes differ from the committed ones.

    The gateway answers CORRUPT_MESSAGE for the partition, and an operator must look at the object.
    """

    def __init__(self, object_key: str, partition: Partition, offset: int, reason: str) -> None:
        super().__init__(
            f"object {object_key}, topic {partition.topic_id.hex()} partition {partition.index},"
            f" offset {offset}: {reason}"
        )
        self.object_key = object_key
        self.partition = partition
        self.offset = offset
        self.reason = reason


def prepare_run(
    region: memoryview, row: RunRow, partition: Partition, object_key: str
) -> PreparedRun:
    """Verify a run or a chunk, and write its offsets into it if it has none yet.

    Args:
      region: exactly the stored bytes, in writable memory that fetches send from then on.

    Raises:
      CorruptRun: the region was not touched.
    """
    try:
        if is_chunk(row):
            return prepare_chunk(region, chunk_of(row))
        return prepare_wal_run(region, _committed(row, partition))
    except CorruptBatches as error:
        raise CorruptRun(object_key, partition, error.offset, error.reason) from error


def marker_run(partition: Partition, row: RunRow) -> PreparedRun:
    """Return the control batch of a transaction's marker, which is in no object."""
    marker = row.marker()
    batch = control_batch(
        base_offset=row.base_offset,
        leader_epoch=partition.epoch_at(row.base_offset),
        timestamp_ms=marker.timestamp_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
        committed=marker.committed,
    )
    offsets, starts = array("q", [row.base_offset]), array("q", [0, len(batch)])
    return PreparedRun(memoryview(batch), offsets, starts, row.next_offset, row.next_offset)


def _committed(row: RunRow, partition: Partition) -> CommittedRun:
    return CommittedRun(
        partition.topic_id,
        partition.index,
        row.base_offset,
        row.next_offset,
        row.length,
        row.check,
        row.max_timestamp if row.flags & RUN_LOG_APPEND_TIME else -1,
        partition.epoch_at(row.base_offset),
        bool(row.flags & RUN_FINAL),
        bool(row.flags & RUN_HEADED),
    )


def chunk_of(row: RunRow) -> Chunk:
    """Return the chunk of a row that segment_rows.py made for a chunk."""
    return Chunk(
        row.base_offset,
        row.next_offset,
        row.position,
        row.length,
        0,
        0,
        row.max_timestamp,
        row.check,
    )
