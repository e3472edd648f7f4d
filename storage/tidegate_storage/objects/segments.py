"""Building a segment: batches in, one object out.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from ..stores.object_store import Buffer
from .segment_format import (
    CHUNK_BYTES,
    HEADER_BYTES,
    AbortedTransaction,
    Chunk,
    SegmentIndex,
    header_bytes,
    tail_bytes,
)


class FinalBatch(NamedTuple):
    """A batch as it is served, and its facts for the index.

    next_offset: the first offset after it, counting those that compaction removed.
    """

    data: Buffer
    next_offset: int
    record_count: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """A finished segment.

    length: bytes of its batches, which begin at HEADER_BYTES.  max_timestamp: ms, -1 for none.
    """

    body: bytearray
    index: SegmentIndex
    length: int
    max_timestamp: int
    record_count: int


class SegmentBuilder:
    """Gathers the batches of one segment, in offset order."""

    def __init__(
        self, topic_id: bytes, partition: int, base_offset: int, *, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self._topic_id = topic_id
        self._partition = partition
        self._base_offset = base_offset
        self._chunk_bytes = chunk_bytes
        self._body = bytearray(header_bytes(topic_id, partition, base_offset))
        self._chunks: list[Chunk] = []
        self._aborted: dict[AbortedTransaction, None] = {}
        self._start = HEADER_BYTES
        self._chunk_base = base_offset
        self._begin_chunk()

    def _begin_chunk(self) -> None:
        self._batches = 0
        self._records = 0
        self._max_timestamp = -1

    @property
    def length(self) -> int:
        """Return the size of the batches so far, bytes."""
        return len(self._body) - HEADER_BYTES

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction, which may end after this segment; repeats are harmless."""
        self._aborted[transaction] = None

    def append(self, batch: FinalBatch) -> None:
        """Take the next batch."""
        self._body += batch.data
        self._batches += 1
        self._records += batch.record_count
        self._max_timestamp = max(self._max_timestamp, batch.max_timestamp)
        self._next_offset = batch.next_offset
        if len(self._body) - self._start >= self._chunk_bytes:
            self._end_chunk(batch.next_offset)

    def _end_chunk(self, next_offset: int) -> None:
        position, end = self._start, len(self._body)
        with memoryview(self._body) as view:
            crc = crc32c(view[position:end])
        self._chunks.append(
            Chunk(
                self._chunk_base,
                next_offset,
                position,
                end - position,
                self._batches,
                self._records,
                self._max_timestamp,
                crc,
            )
        )
        self._start, self._chunk_base = end, next_offset
        self._begin_chunk()

    def seal(self, next_offset: int) -> SealedSegment:
        """Finish a segment that covers all offsets below next_offset; it has at least one batch."""
        if self._batches:
            self._end_chunk(next_offset)
        elif self._chunks[-1].next_offset != next_offset:
            self._chunks[-1] = self._chunks[-1]._replace(next_offset=next_offset)
        length = self.length
        index = SegmentIndex(
            self._topic_id,
            self._partition,
            self._base_offset,
            next_offset,
            tuple(self._chunks),
            tuple(self._aborted),
            0,
        )
        tail, check = tail_bytes(index, HEADER_BYTES + length)
        self._body += tail
        return SealedSegment(
            self._body,
            _with_check(index, check),
            length,
            max(chunk.max_timestamp for chunk in self._chunks),
            sum(chunk.record_count for chunk in self._chunks),
        )


def _with_check(index: SegmentIndex, check: int) -> SegmentIndex:
    return SegmentIndex(
        index.topic_id,
        index.partition,
        index.base_offset,
        index.next_offset,
        index.chunks,
        index.aborted,
        check,
    )
