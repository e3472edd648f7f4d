"""What the driver hands to tasks, and what they hand back: coordinates, never records.

All of it is encoded as msgpack, so that a Spark row is one binary cell.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import msgspec

from tidegate_coordination.events.cluster import Segment


class Source(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One run or segment to be read.

    position: of the run in a WAL object, of the index in a segment.  length: of the batches.
    index_length: bytes of the index of a segment, 0 for a run of a WAL object.
    append_time: ms for LogAppendTime, -1 where clients stamp records; of WAL runs only.
    max_timestamp: ms.
    check: as the cluster state keeps it.
    leader_epoch: of a run of a WAL object; the batches of a segment say theirs.
    """

    key: str
    position: int
    length: int
    base_offset: int
    next_offset: int
    check: int
    append_time: int
    index_length: int
    max_timestamp: int = -1
    leader_epoch: int = 0


class CompactionRules(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a unit of compaction is done.

    dirty_from: earlier rounds have had everything below before them.  tombstones_below: older ones
    go.  segment_bytes: of a full segment.  span_ms: between its oldest and newest records, -1 for
    no limit.  map_bytes: of the newest offsets of keys; the round ends where they are full.
    alone_below: what begins below is not put together with others.  retention_ms: that tombstones
    stay.
    """

    dirty_from: int
    tombstones_below: int
    segment_bytes: int
    span_ms: int
    map_bytes: int
    alone_below: int
    retention_ms: int


class MergeUnit(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Neighbours in one partition that become one segment, or as many as compaction leaves.

    number: unlike all others of this driver's life.  partition: its index in the topic.  rules: of
    compaction; None to merge.
    """

    number: int
    topic_id: bytes
    partition: int
    sources: tuple[Source, ...]
    rules: CompactionRules | None = None

    @property
    def base_offset(self) -> int:
        """Return the first offset it stands for."""
        return self.sources[0].base_offset

    @property
    def next_offset(self) -> int:
        """Return the first offset behind it."""
        return self.sources[-1].next_offset

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its batches."""
        return sum(source.length for source in self.sources)


class MergeTask(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Units that one task does, since they read the same objects.

    incarnation: the driver's; its segments are named after it.
    """

    cluster_id: str
    timeline: int
    incarnation: int
    chunk_bytes: int
    units: tuple[MergeUnit, ...]

    def encode(self) -> bytes:
        """Return it for a row."""
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> MergeTask:
        """Return what encode() was called on."""
        return _task_decoder.decode(data)


class Stretch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Sources [first, stop) of a unit became one segment.

    records, digest: of what was written, and proven.  removed: how many records were left out.
    """

    first: int
    stop: int
    records: int
    digest: int
    removed: int


class Compacted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What compaction did: a segment for each stretch, in their order; other sources may stay.

    end_offset: everything below was before it.  Then the records removed, by rule, and the batches
    that stayed since they cannot be read.
    """

    stretches: tuple[Stretch, ...]
    end_offset: int
    superseded: int
    tombstones: int
    keyless: int
    unreadable: int


class UnitResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What became of a unit.

    gets: requests to the store; units that share one count a part of it.
    records, digest: of what was written, proven equal to what was read (digests.py).
    error: a sentence for people, that names the object; empty if all is well.
    compacted: of a unit of compaction, whose proof is that of its stretches; digest is 0.
    """

    number: int
    segments: tuple[Segment, ...]
    records: int
    digest: int
    read_bytes: int
    gets: float
    error: str = ""
    compacted: Compacted | None = None

    def encode(self) -> bytes:
        """Return it for a row."""
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> UnitResult:
        """Return what encode() was called on."""
        return _result_decoder.decode(data)


class Runner(Protocol):
    """Runs tasks somewhere: in this process, or on Spark."""

    def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        """Yield results as they come; units of a task that was lost are just missing."""
        ...


_encoder = msgspec.msgpack.Encoder()
_task_decoder = msgspec.msgpack.Decoder(MergeTask)
_result_decoder = msgspec.msgpack.Decoder(UnitResult)
