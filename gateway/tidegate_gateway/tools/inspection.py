"""Examines one object, intact or damaged, for an operator.

look_at() reads the frame: the first and the last bytes, and the index.  scan() then reads the
batches of a stretch, in reads of READ_BYTES, so an object may have any size.  Both report damage
and continue after it as far as they can.  A fetch refuses an object with a wrong CRC, but these two
functions show all parts of it that can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from tidegate_storage.objects import segment_format, wal_format
from tidegate_storage.objects.batch_scan import BatchScan, NoBatch, SeenBatch
from tidegate_storage.objects.corrupt import CorruptObject
from tidegate_storage.objects.segment_format import AbortedTransaction, Chunk, SegmentIndex
from tidegate_storage.objects.wal_format import Slice, Source, WalIdentity
from tidegate_storage.stores.object_store import Buffer

READ_BYTES: Final = 1 << 20
# Larger than the index of the largest possible object.
MAX_INDEX_BYTES: Final = 256 << 20
MAX_PROBLEMS: Final = 100
_TRAILER_BYTES: Final = wal_format.TRAILER.size
assert segment_format.TRAILER.size == _TRAILER_BYTES


class NotOurs(Exception):
    """The object is neither a WAL object nor a segment."""


class ByteSource(Protocol):
    """An object, or a file."""

    @property
    def size_bytes(self) -> int:
        """The size of the object or file."""
        ...

    async def read(self, start: int, length: int) -> Buffer:
        """Return exactly `length` bytes; length: at least 1."""
        ...


class Stretch(NamedTuple):
    """Consecutive batches.

    entry: the index entry of these batches; None if the index is unreadable.
    """

    position: int
    length: int
    entry: Slice | Chunk | None


class SegmentPlace(NamedTuple):
    """The partition and offsets that a segment holds.  next_offset: -1 if not known."""

    topic_id: bytes
    partition: int
    base_offset: int
    next_offset: int


@dataclass(slots=True)
class Tags:
    """The tags of an object's index.  aborted: of a segment.  sources: see WalContents."""

    aborted: tuple[AbortedTransaction, ...] = ()
    sources: tuple[Source, ...] = ()


@dataclass(slots=True)
class Frame:
    """The facts in an object's frame.

    version: major, minor.  identity: set for a WAL object; place: set for a segment.  index_check:
    the check value of a segment's index, to compare with the one in the cluster state.
    """

    kind: str
    size_bytes: int
    version: tuple[int, int] | None = None
    identity: WalIdentity | None = None
    place: SegmentPlace | None = None
    index_check: int | None = None
    tags: Tags = field(default_factory=Tags)
    stretches: list[Stretch] = field(default_factory=list[Stretch])
    problems: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Scanned:
    """The contents of a stretch.  batches, records: counts of undamaged ones."""

    batches: int = 0
    records: int = 0
    problems: list[str] = field(default_factory=list[str])

    def add(self, problem: str) -> None:
        """Note a problem; problems after the first MAX_PROBLEMS are dropped."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


async def look_at(source: ByteSource) -> Frame:
    """Read an object's frame.

    Raises:
      NotOurs: neither a gateway nor the pipeline wrote the object.
      UnknownVersion: a newer release wrote it.
      NoSuchObject, StoreUnavailable: of the source.
    """
    size = source.size_bytes
    head = await source.read(0, min(size, segment_format.HEADER_BYTES)) if size else b""
    tail_bytes = min(size, _TRAILER_BYTES)
    tail = await source.read(size - tail_bytes, tail_bytes) if size else b""
    frame = Frame(_kind(head, tail), size)
    if frame.kind == "wal":
        await _look_at_wal(source, frame, head, tail)
    else:
        await _look_at_segment(source, frame, head, tail)
    return frame


def _kind(head: Buffer, tail: Buffer) -> str:
    """Return the kind of an object, from its first or last bytes: one end may be damaged."""
    for kind, module in (("wal", wal_format), ("segment", segment_format)):
        is_begun = bytes(head[: len(module.MAGIC)]) == module.MAGIC
        if is_begun or bytes(tail[-len(module.END_MAGIC) :]) == module.END_MAGIC:
            return kind
    raise NotOurs("it is neither a WAL object nor a segment: its first and last bytes fit neither")


async def _look_at_wal(source: ByteSource, frame: Frame, head: Buffer, tail: Buffer) -> None:
    start = wal_format.HEADER.size
    try:
        frame.identity, frame.version = wal_format.read_head(_part(head, start))
    except CorruptObject as error:
        frame.problems.append(str(error))
    try:
        place = wal_format.read_trailer(_part(tail, _TRAILER_BYTES), frame.size_bytes)
        footer = await _index_bytes(source, place.position, place.length)
    except CorruptObject as error:
        _give_up(frame, start, error)
        return
    try:
        wal_format.check_frame(_part(head, start), footer, place)
    except CorruptObject as error:
        frame.problems.append(str(error))
    try:
        found = wal_format.read_footer(footer, place.position)
    except CorruptObject as error:
        _give_up(frame, start, error, place.position)
        return
    frame.tags.sources = found.sources
    frame.stretches = [Stretch(each.start_byte, each.size_bytes, each) for each in found.slices]


async def _look_at_segment(source: ByteSource, frame: Frame, head: Buffer, tail: Buffer) -> None:
    start = segment_format.HEADER_BYTES
    try:
        found = segment_format.read_head(head)
        frame.version = (found.major, found.minor)
        frame.place = SegmentPlace(found.topic_id, found.partition, found.base_offset, -1)
    except CorruptObject as error:
        frame.problems.append(str(error))
    try:
        position = segment_format.index_position(_part(tail, _TRAILER_BYTES), frame.size_bytes)
        index_tail = await _index_bytes(source, position, frame.size_bytes - position)
    except CorruptObject as error:
        _give_up(frame, start, error)
        return
    try:
        segment_format.check_tail(index_tail, position)
    except CorruptObject as error:
        frame.problems.append(str(error))
    try:
        _take_index(frame, segment_format.read_index(index_tail, position))
    except CorruptObject as error:
        _give_up(frame, start, error, position)


def _take_index(frame: Frame, index: SegmentIndex) -> None:
    place = SegmentPlace(index.topic_id, index.partition, index.base_offset, index.next_offset)
    if frame.place is not None and frame.place[:3] != place[:3]:
        frame.problems.append("header and index are those of different segments")
    frame.place = place
    frame.index_check = index.check
    frame.tags.aborted = index.aborted
    frame.stretches = [Stretch(each.position, each.length, each) for each in index.chunks]


def _part(data: Buffer, length: int) -> Buffer:
    """Return the first bytes of an end.

    Raises:
      CorruptObject: the end has fewer bytes.
    """
    if len(data) < length:
        raise CorruptObject("the object was cut: it is too short for its header and trailer")
    return data[:length]


async def _index_bytes(source: ByteSource, position: int, length: int) -> Buffer:
    if not 0 < length <= MAX_INDEX_BYTES:
        raise CorruptObject(f"an index cannot have {length} bytes")
    return await source.read(position, length)


def _give_up(frame: Frame, start: int, error: CorruptObject, end: int | None = None) -> None:
    """Without an index, look for batches from the first byte on where one may begin."""
    frame.problems.append(str(error))
    stop = frame.size_bytes if end is None else end
    if start < stop:
        frame.stretches = [Stretch(start, stop - start, None)]


async def scan(
    source: ByteSource, stretch: Stretch, on_batch: Callable[[SeenBatch], object]
) -> Scanned:
    """Read a stretch; call on_batch for each batch, even if its CRC is wrong."""
    end = stretch.position + stretch.length
    batches = BatchScan(stretch.position, end)
    found = Scanned()
    order = _Order(stretch.entry, found)
    for start in range(stretch.position, end, READ_BYTES):
        for each in batches.feed(await source.read(start, min(READ_BYTES, end - start))):
            if isinstance(each, SeenBatch):
                order.look(each)
                on_batch(each)
            else:
                _add_lost(found, each)
    cut = batches.end()
    if cut is not None:
        _add_lost(found, cut)
    found.batches, found.records = batches.batches, batches.records
    _compare(stretch.entry, batches.crc32c, found)
    return found


def _add_lost(found: Scanned, lost: NoBatch) -> None:
    found.add(f"no batch can be read from byte {lost.position} on: {lost.reason}")


@dataclass(slots=True)
class _Order:
    """Checks the CRCs of batches, and the order of the batches of a chunk."""

    entry: Slice | Chunk | None
    found: Scanned
    next_offset: int = 0

    def look(self, batch: SeenBatch) -> None:
        header = batch.header
        if not batch.is_whole:
            self.found.add(f"the CRC of the batch at byte {batch.position} is wrong")
        if not isinstance(self.entry, Chunk):
            return
        first = max(self.next_offset, self.entry.base_offset)
        if header.base_offset < first or header.last_offset >= self.entry.next_offset:
            offsets = f"{header.base_offset} to {header.last_offset}"
            self.found.add(f"the batch at byte {batch.position} holds {offsets}: out of place")
        self.next_offset = header.last_offset + 1


def _compare(entry: Slice | Chunk | None, crc32c: int, found: Scanned) -> None:
    """Compare the contents of a stretch with its index entry."""
    if entry is None:
        return
    if crc32c != entry.crc32c:
        found.add(f"the CRC is {crc32c:08x}; the index says {entry.crc32c:08x}")
    if found.records != entry.record_count and not found.problems:
        found.add(f"{found.records} records; the index says {entry.record_count}")
    if isinstance(entry, Chunk) and found.batches != entry.batch_count and not found.problems:
        found.add(f"{found.batches} batches; the index says {entry.batch_count}")
