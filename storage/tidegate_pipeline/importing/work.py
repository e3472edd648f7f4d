"""The messages between the driver of an import and its tasks: coordinates, never records."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from tidegate_coordination.client.walked_batches import DECOMPRESSED_BYTES

ANOTHERS: Final = -1


class ImportUnit(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The batches of a partition that begin in the offsets [start, stop).

    number: unique within the driver's incarnation.  partition: its index in the topic.
    least: a batch that begins below start and reaches beyond it belongs to this unit, too; it may
      not begin below this offset.  ANOTHERS: such a batch belongs to the previous unit.
    epoch: the leader epoch of the last batch before start; -1 if it is not known.
    budget_bytes: the unit ends after about this many bytes, even before stop.
    counters: the counters of the WAL objects that the unit may write.
    """

    number: int
    topic_id: bytes
    shown_id: bytes
    topic: str
    partition: int
    start: int
    stop: int
    least: int
    epoch: int
    budget_bytes: int
    counters: tuple[int, ...]


class ImportTask(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Units that one task does, one after another.

    node_id, zone, incarnation: the driver's, for the names of the objects.  object_bytes,
    object_batches: an object has at most this, or a single larger batch. decompressed_bytes: the
    bound of a decompressed batch; None: records are not checked.
    """

    cluster_id: str
    timeline: int
    zone: str
    node_id: int
    incarnation: int
    object_bytes: int
    object_batches: int
    units: tuple[ImportUnit, ...]
    decompressed_bytes: int | None = DECOMPRESSED_BYTES

    def encode(self) -> bytes:
        """Return the bytes for a row."""
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> ImportTask:
        """Return the value that encode() encoded."""
        return _task_decoder.decode(data)


class WrittenBatch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """position, length: bytes in the object.  facts: BatchFacts from record_count on.

    Other fields: see MirroredBatch.
    """

    position: int
    length: int
    facts: tuple[int, ...]
    base_offset: int
    next_offset: int
    leader_epoch: int
    kind: int


class WrittenObject(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A stored WAL object with batches of one partition, in the order of their offsets.

    is_walked: all are walked, see FetchedBatch.
    """

    counter: int
    size_bytes: int
    batches: tuple[WrittenBatch, ...]
    is_walked: bool = False


class Ending(IntEnum):
    """Why a unit ended.

    WHOLE: the unit reached its stop.  EARLY: its budget of bytes or counters is used up.  NO_MORE:
    the source gives no batch beyond, although its end may be above.  GONE: the source does not have
    the first offset.  DIVERGED: the source has another history.  FAILED: try again.
    """

    WHOLE = 1
    EARLY = 2
    NO_MORE = 3
    GONE = 4
    DIVERGED = 5
    FAILED = 6


class UnitDone(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The result of a unit.

    next_offset: all batches of the unit that begin below it are in the objects.  read_bytes: the
    bytes of the batches that were read.  text: a sentence for people if it ended GONE, DIVERGED or
    FAILED.
    """

    number: int
    ending: Ending
    next_offset: int
    objects: tuple[WrittenObject, ...] = ()
    read_bytes: int = 0
    text: str = ""

    def encode(self) -> bytes:
        """Return the bytes for a row."""
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> UnitDone:
        """Return the value that encode() encoded."""
        return _done_decoder.decode(data)


_encoder = msgspec.msgpack.Encoder()
_task_decoder = msgspec.msgpack.Decoder(ImportTask)
_done_decoder = msgspec.msgpack.Decoder(UnitDone)
