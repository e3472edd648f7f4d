"""A run made ready to be served: verified, its final offsets written into its batches.  Pure.

The batches of a WAL object lie as clients sent them: base offset 0, and a leader epoch nobody set.
Both stand outside the batch's CRC, so they are written in place, once, and the run is then served
as it is.  For LogAppendTime the time stamp type and the max time stamp change too; they are inside
the CRC, which is computed anew.

Nothing is written before everything is verified: each batch's CRC-32C, that the batches tile the
run, and the run's check, which holds only for the batches committed for this topic and partition
(tidegate_storage.runs).  So bytes of others in a shared object can never be served.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct

from crc32c import crc32c

from tidegate_coordination.events import RUN_LOG_APPEND_TIME
from tidegate_coordination.state.partitions import Partition
from tidegate_coordination.state.runs import RunRow
from tidegate_protocol.batches import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    set_base_offset,
    set_log_append_time,
)
from tidegate_protocol.compression import Codec
from tidegate_storage.runs import run_check

LEADER_EPOCH = 0
"""Every partition has one history of writes, so its epoch never changes."""

_FIXED_BYTES_PER_RUN = 512
_FIXED_BYTES_PER_BATCH = 16

_ZSTD = int(Codec.ZSTD)
# The first fields of a batch header, up to the last offset delta.
_unpack_first = Struct(">qiibIhi").unpack_from


class CorruptRun(Exception):
    """Stored bytes are not those that were committed.

    Answer CORRUPT_MESSAGE for this partition; an operator must look at the object.
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


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Batches as a consumer gets them.

    base_offsets[i], starts[i]: first offset and first byte of batch i; starts ends with the length
    of the run.  next_offset: the first behind the run.  zstd: the batches compressed so.
    """

    view: memoryview
    base_offsets: array[int]
    starts: array[int]
    next_offset: int
    zstd: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return what it costs to keep."""
        return (
            len(self.view) + _FIXED_BYTES_PER_RUN + _FIXED_BYTES_PER_BATCH * len(self.base_offsets)
        )

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.base_offsets)

    def find(self, offset: int) -> int:
        """Return the batch that holds the offset; the first one for an offset below the run."""
        return max(bisect_right(self.base_offsets, offset) - 1, 0)

    def batch(self, index: int) -> memoryview:
        """Return the bytes of a batch."""
        return self.view[self.starts[index] : self.starts[index + 1]]


@dataclass(slots=True)
class _Walk:
    """What the headers of a run say, in order."""

    base_offsets: array[int]
    starts: array[int]
    crcs: list[int]
    zstd: list[int]


def prepare_run(
    region: memoryview, row: RunRow, partition: Partition, object_key: str
) -> PreparedRun:
    """Verify a run and write its offsets into it.

    Args:
      region: writable, exactly the bytes of the run as stored; served from here on.

    Raises:
      CorruptRun: the region was not touched.
    """
    walk = _verify(region, row, partition, object_key)
    starts = walk.starts
    for start, base_offset in zip(starts, walk.base_offsets, strict=False):
        set_base_offset(region, start, base_offset=base_offset, leader_epoch=LEADER_EPOCH)
    if row.flags & RUN_LOG_APPEND_TIME:
        for start, end in pairwise(starts):
            set_log_append_time(region, start, size=end - start, timestamp_ms=row.max_timestamp)
    return PreparedRun(
        region.toreadonly(), walk.base_offsets, starts, row.next_offset, tuple(walk.zstd)
    )


def _verify(region: memoryview, row: RunRow, partition: Partition, object_key: str) -> _Walk:
    """Walk over all batches.  Once per batch that is read: it must be quick."""
    walk = _Walk(array("q"), array("I"), [], [])
    start, offset, size = 0, row.base_offset, len(region)
    while start < size:
        if size - start < HEADER_BYTES:
            raise CorruptRun(object_key, partition, offset, "a batch header is cut short")
        _, length, _, magic, crc, attributes, last_delta = _unpack_first(region, start)
        end = start + LENGTH_OVERHEAD + length
        if magic != MAGIC or not start + HEADER_BYTES <= end <= size or last_delta < 0:
            reason = f"no batch of {length} bytes, magic {magic}, can lie here"
            raise CorruptRun(object_key, partition, offset, reason)
        if crc32c(region[start + CRC_START : end]) != crc:
            raise CorruptRun(object_key, partition, offset, "the CRC of the batch is wrong")
        if attributes & CODEC_MASK == _ZSTD:
            walk.zstd.append(len(walk.crcs))
        walk.crcs.append(crc)
        walk.base_offsets.append(offset)
        walk.starts.append(start)
        offset += last_delta + 1
        start = end
    walk.starts.append(size)
    if offset != row.next_offset or size != row.length:
        reason = f"holds records up to {offset}, {row.next_offset} were committed"
        raise CorruptRun(object_key, partition, row.base_offset, reason)
    if run_check(partition.topic_id, partition.index, walk.crcs) != row.check:
        reason = "these batches were not committed for this partition"
        raise CorruptRun(object_key, partition, row.base_offset, reason)
    return walk
