"""Stored batches made ready to be served: verified, with their final offsets.  Pure.

A WAL object holds batches as clients sent them: base offset 0, and a leader epoch that is not set.
Both lie outside the batch's CRC, so they are written in place, once.  For LogAppendTime the
timestamp type and the max timestamp change too; they lie inside the CRC, which is computed again.

All checks are made before the first write: each batch's CRC-32C, that the batches fill the run
without gaps, and the run's check, which holds only for the batches committed for this topic and
partition (runs.py).  So a reader of one partition never gets bytes of another one.

Batches that a mirror stored have their offsets and epochs, perhaps with gaps between them; from
RUN_HEADED on the run's check covers them, too.

A chunk of a segment is final already, and one CRC covers all of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from tidegate_protocol.batches import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    set_base_offset,
    set_log_append_time,
)

from ..stores.files.file_part import FilePart
from .runs import headed_crc, run_check
from .segment_format import Chunk

_FIXED_BYTES_PER_RUN = 512
_FIXED_BYTES_PER_BATCH = 16

# The first fields of a batch header, up to the last offset delta.
_unpack_first = Struct(">qiibIhi").unpack_from


class CorruptBatches(Exception):
    """Stored bytes are not the committed ones.  offset: roughly where."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class CommittedRun(NamedTuple):
    """The cluster state's facts about a run.

    append_time: ms, -1 if clients stamp records.  leader_epoch: that of all its offsets.
    is_final: a mirror stored the batches, with their offsets and leader epochs.  is_headed: the
    check covers these, too.
    """

    topic_id: bytes
    partition: int
    base_offset: int
    next_offset: int
    length: int
    check: int
    append_time: int
    leader_epoch: int = 0
    is_final: bool = False
    is_headed: bool = False


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Batches as a consumer gets them.

    base_offsets[i], starts[i]: first offset and first byte of batch i; starts ends with the length
    of the run.  If compaction left a gap before a batch, base_offsets has the gap's first offset,
    because a fetch from an offset in the gap gets the batch after it.  end_offset: the first after
    the last batch.  next_offset: the first after the run.  bound_ms: no record has a later time
    stamp, even if headers say so; -1 if headers have true times.
    """

    view: memoryview
    base_offsets: array[int]
    starts: array[int]
    next_offset: int
    end_offset: int
    bound_ms: int = -1

    @property
    def size_bytes(self) -> int:
        """Return the bytes of memory that it takes."""
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


@dataclass(frozen=True, slots=True)
class FileRun:
    """A PreparedRun whose bytes lie in a file; memory holds offset and position of each batch."""

    view: FilePart
    base_offsets: array[int]
    starts: array[int]
    next_offset: int
    end_offset: int

    @property
    def size_bytes(self) -> int:
        """Return the bytes of memory that it takes."""
        return 2 * _FIXED_BYTES_PER_RUN + _FIXED_BYTES_PER_BATCH * len(self.base_offsets)

    def find(self, offset: int) -> int:
        """See PreparedRun."""
        return max(bisect_right(self.base_offsets, offset) - 1, 0)


def in_file(run: PreparedRun, view: FilePart) -> FileRun:
    """Return a run whose bytes the given part of a file holds."""
    return FileRun(view, run.base_offsets, run.starts, run.next_offset, run.end_offset)


@dataclass(slots=True)
class _Walk:
    """The fields of a run's headers, in order; crcs: of batches that were verified one by one."""

    base_offsets: array[int]
    starts: array[int]
    crcs: list[int]
    end_offset: int


def prepare_wal_run(region: memoryview, run: CommittedRun) -> PreparedRun:
    """Verify a run of a WAL object and write its offsets into it.

    Args:
      region: writable, exactly the bytes of the run as stored; afterwards it is served.

    Raises:
      CorruptBatches: the region was not touched.
    """
    walk = _verify(region, run)
    starts = walk.starts
    if run.is_final:
        ends = run.next_offset, walk.end_offset
        return PreparedRun(region.toreadonly(), walk.base_offsets, starts, *ends)
    for start, base_offset in zip(starts, walk.base_offsets, strict=False):
        set_base_offset(region, start, base_offset=base_offset, leader_epoch=run.leader_epoch)
    if run.append_time >= 0:
        for start, end in pairwise(starts):
            set_log_append_time(region, start, size=end - start, timestamp_ms=run.append_time)
    return PreparedRun(
        region.toreadonly(),
        walk.base_offsets,
        starts,
        run.next_offset,
        run.next_offset,
    )


def prepare_chunk(region: memoryview, chunk: Chunk) -> PreparedRun:
    """Verify a chunk of a segment.

    Raises:
      CorruptBatches: these are not its bytes.
    """
    if len(region) != chunk.length or crc32c(region) != chunk.crc32c:
        raise CorruptBatches(chunk.base_offset, "the CRC of a segment's chunk is wrong")
    walk = _walk(region, chunk.base_offset, is_final=True, is_verified=True)
    end_offset = walk.end_offset
    if end_offset > chunk.next_offset:
        reason = f"holds records up to {end_offset}, beyond {chunk.next_offset}"
        raise CorruptBatches(end_offset, reason)
    return PreparedRun(
        region.toreadonly(),
        walk.base_offsets,
        walk.starts,
        chunk.next_offset,
        end_offset,
    )


def _verify(region: memoryview, run: CommittedRun) -> _Walk:
    walk = _walk(region, run.base_offset, is_final=run.is_final, is_verified=False)
    if run.is_headed:
        walk.crcs = _headed(region, walk)
    is_whole = walk.end_offset == run.next_offset
    if not is_whole or len(region) != run.length:
        reason = f"holds records up to {walk.end_offset}, {run.next_offset} were committed"
        raise CorruptBatches(run.base_offset, reason)
    if run_check(run.topic_id, run.partition, walk.crcs) != run.check:
        reason = "these batches were not committed for this partition"
        raise CorruptBatches(run.base_offset, reason)
    return walk


def _headed(region: memoryview, walk: _Walk) -> list[int]:
    heads = (_unpack_first(region, start) for start in walk.starts[:-1])
    return [headed_crc(crc, base, epoch) for base, _, epoch, _, crc, *_ in heads]


def _walk(region: memoryview, offset: int, *, is_final: bool, is_verified: bool) -> _Walk:
    """Walk over all batches.  This runs for each batch that is read, so it must be fast.

    is_final: the batches have their offsets, perhaps with gaps; else they follow each other from
    offset on. is_verified: one CRC has covered all batches; else each batch is verified.
    """
    base_offsets, starts, crcs = array("q"), array("I"), list[int]()
    start, size = 0, len(region)
    while start < size:
        if size - start < HEADER_BYTES:
            raise CorruptBatches(offset, "a batch header is cut short")
        base_offset, length, _, magic, crc, _, last_delta = _unpack_first(region, start)
        end = start + LENGTH_OVERHEAD + length
        if magic != MAGIC or not start + HEADER_BYTES <= end <= size or last_delta < 0:
            reason = f"no batch of {length} bytes, magic {magic}, can lie here"
            raise CorruptBatches(offset, reason)
        if not is_verified:
            if crc32c(region[start + CRC_START : end]) != crc:
                raise CorruptBatches(offset, "the CRC of the batch is wrong")
            crcs.append(crc)
        if not is_final:
            base_offset = offset
        elif base_offset < offset:
            raise CorruptBatches(base_offset, f"a batch begins below {offset}, the end of the last")
        base_offsets.append(offset)
        starts.append(start)
        offset = base_offset + last_delta + 1
        start = end
    starts.append(size)
    return _Walk(base_offsets, starts, crcs, offset)
