"""What the driver hands to tasks, and what they hand back: coordinates, never records.

All of it is encoded as msgpack, so that a Spark row is one binary cell.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import msgspec

from tidegate_coordination.events import Segment


class Source(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One run or segment to be read.

    position: of the run in a WAL object, of the index in a segment.  length: of the batches.
    index_length: bytes of the index of a segment, 0 for a run of a WAL object.
    append_time: ms for LogAppendTime, -1 where clients stamp records; of WAL runs only.
    check: as the cluster state keeps it.
    """

    key: str
    position: int
    length: int
    base_offset: int
    next_offset: int
    check: int
    append_time: int
    index_length: int


class MergeUnit(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Neighbours in one partition that become one segment.

    number: unlike all others of this driver's life.  partition: its index in the topic.
    """

    number: int
    topic_id: bytes
    partition: int
    sources: tuple[Source, ...]

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


class UnitResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What became of a unit.

    gets: requests to the store; units that share one count a part of it.
    records, digest: of what was written, proven equal to what was read (digests.py).
    error: a sentence for people, that names the object; empty if all is well.
    """

    number: int
    segments: tuple[Segment, ...]
    records: int
    digest: int
    read_bytes: int
    gets: float
    error: str = ""

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
