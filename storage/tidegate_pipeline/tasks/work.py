"""The messages between driver and tasks: coordinates, never records.

All of it is encoded as msgpack, so that a Spark row is one binary cell.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import msgspec

from tidegate_coordination.events.cluster import Segment


class Source(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One run or segment to be read.

    position: the position of the run in a WAL object, or of the index in a segment. length: the
    bytes of the batches.
    index_length: the bytes of the index of a segment, 0 for a run of a WAL object.
    append_time: ms for LogAppendTime, -1 if clients stamp records; for WAL runs only.
    newest_at_ms: the time from which it ages (StateTables.newest_at_ms); of a marker, its time.
    bound_ms: the largest time stamp of its records, if batch headers may have a false time; -1 if
    headers have true times, or none is known. check: the check as the cluster state keeps it.
    leader_epoch: the epoch of a run of a WAL object; a segment's batches hold their own epochs.
    marker: (producer id, epoch, whether it commits) of a transaction's marker, which lies in no
      object.
    is_final, is_headed: for a run of a WAL object, see CommittedRun.
    """

    key: str
    position: int
    length: int
    base_offset: int
    next_offset: int
    check: int
    append_time: int
    index_length: int
    newest_at_ms: int = -1
    bound_ms: int = -1
    leader_epoch: int = 0
    marker: tuple[int, int, bool] | None = None
    is_final: bool = False
    is_headed: bool = False


class CompactionRules(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a unit of compaction is done.

    dirty_from: earlier rounds have covered all offsets below.  tombstones_below: tombstones below
    this offset are removed.  segment_bytes: the size of a full segment. span_ms: the longest time
    between its oldest and newest records, -1 for no limit. map_bytes: the memory for the newest
    offsets of keys; the round ends where the map is full.  alone_below: sources that begin below
    are not merged with others.
    retention_ms: how long tombstones stay.
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

    number: unique within the driver's incarnation.  partition: its index in the topic.  rules: the
    rules of compaction; None to merge.  aborted: (producer id, first offset, last offset) of the
    aborted transactions of which the cluster state knows and that overlap sources which are no
    segments.
    """

    number: int
    topic_id: bytes
    partition: int
    sources: tuple[Source, ...]
    rules: CompactionRules | None = None
    aborted: tuple[tuple[int, int, int], ...] = ()

    @property
    def base_offset(self) -> int:
        """Return the first offset that the unit covers."""
        return self.sources[0].base_offset

    @property
    def next_offset(self) -> int:
        """Return the first offset after the unit."""
        return self.sources[-1].next_offset

    @property
    def size_bytes(self) -> int:
        """Return the size of the unit's batches, bytes."""
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
        """Return the bytes for a row."""
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> MergeTask:
        """Return the value that encode() encoded."""
        return _task_decoder.decode(data)


class Stretch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Sources [first, stop) of a unit became one segment.

    records, digest: the record count and the digest of the written and proven batches.  removed:
    how many records were removed.
    """

    first: int
    stop: int
    records: int
    digest: int
    removed: int


class Compacted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The result of compaction: a segment for each stretch, in order; other sources stay.

    end_offset: the round covered all offsets below.  The other fields count removed records, by
    rule, and batches that stayed because they cannot be read.
    """

    stretches: tuple[Stretch, ...]
    end_offset: int
    superseded: int
    tombstones: int
    keyless: int
    unreadable: int


class Asked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A task's requests to the store, and their bytes; see CostSums."""

    requests: dict[str, int]
    stored_bytes: dict[str, int]
    got_bytes: dict[str, int]


class UnitResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The result of a unit.

    gets: requests to the store; units that share a request count a part of it each. records,
    digest: the record count and the digest of the written batches, proven equal to the batches read
    (digests.py).
    error: a sentence for people that names the object; empty if the unit succeeded.
    compacted: the result of a unit of compaction, which is proven by stretch; digest is 0.  asked:
    the requests of the whole task, in the result of one of its units.
    """

    number: int
    segments: tuple[Segment, ...]
    records: int
    digest: int
    read_bytes: int
    gets: float
    error: str = ""
    compacted: Compacted | None = None
    asked: Asked | None = None

    def encode(self) -> bytes:
        """Return the bytes for a row."""
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> UnitResult:
        """Return the value that encode() encoded."""
        return _result_decoder.decode(data)


class Runner(Protocol):
    """Runs tasks somewhere: in this process, or on Spark."""

    def run(self, tasks: Sequence[MergeTask]) -> AsyncGenerator[UnitResult, None]:
        """Yield results as they come; units of a lost task have no result."""
        ...


_encoder = msgspec.msgpack.Encoder()
_task_decoder = msgspec.msgpack.Decoder(MergeTask)
_result_decoder = msgspec.msgpack.Decoder(UnitResult)
