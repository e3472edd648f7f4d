"""The bytes of a segment around its batches: header, index, trailer.  Pure.

    header    magic 8, major u16, minor u16, partition i32, topic id 16, base offset i64,
              CRC-32C u32 of the header before it
    batches   of one partition, in offset order, as they are served: offsets and time stamps final
    index     major u16, minor u16, topic id 16, partition i32, base offset i64, next offset i64;
              chunk count u32; per chunk: base offset i64, next offset i64, position u64, length
              u32, batch count u32, record count u64, max timestamp i64, CRC-32C u32, reserved u32
              (0);
              tag count u32; per tag: tag u32, length u32, bytes
    trailer   index position u64, index length u32, CRC-32C u32, magic 8

All numbers are big-endian.  A chunk is a stretch of whole batches, about CHUNK_BYTES long: the unit
of reading, of caching, and of the search by offset and time.  Its CRC covers all of its bytes.  The
trailer's CRC covers the index, and the trailer before that CRC.  The cluster state keeps the
trailer's CRC, so a reader accepts only the published index.  Readers start with the index, so it
repeats the header's versions.  The chunks cover [base offset, next offset) without gaps; within a
chunk, compaction may have removed some offsets.

Tag 1 holds the aborted transactions of the segment: producer id i64, first offset i64, last offset
i64, each.  A minor version adds tags, which older readers pass over; a major version may change
anything.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from struct import Struct, error
from typing import NamedTuple

from crc32c import crc32c

from ..stores.object_store import Buffer
from .corrupt import CorruptObject, UnknownVersion

MAGIC = b"TIDESEG\n"
END_MAGIC = b"\nGESEDIT"
MAJOR_VERSION = 1
MINOR_VERSION = 0
CHUNK_BYTES = 1 << 20

TAG_ABORTED = 1

_HEADER = Struct(">8sHHi16sq")
_CRC = Struct(">I")
HEADER_BYTES = _HEADER.size + _CRC.size
TRAILER = Struct(">QII8s")
_VERSIONS = Struct(">HH")
_WHAT = Struct(">HH16siqq")
_COUNT = Struct(">I")
_CHUNK = Struct(">qqQIIQqI4x")
_TAG = Struct(">II")
_PLACE = Struct(">QI")
_ABORTED = Struct(">qqq")


class Chunk(NamedTuple):
    """Whole batches of a segment.

    base_offset, next_offset: the offsets that it covers.  position: the position of its first byte
    in the object.
    max_timestamp: the largest of its batches' max timestamps, ms.
    """

    base_offset: int
    next_offset: int
    position: int
    length: int
    batch_count: int
    record_count: int
    max_timestamp: int
    crc32c: int


class AbortedTransaction(NamedTuple):
    """Records of a producer that a reader of committed data must not see."""

    producer_id: int
    first_offset: int
    last_offset: int


class _AbortedByEnd:
    """Aborted transactions by their last offset; lowest: the least first offset from each on."""

    __slots__ = ("_last", "_lowest", "_rows")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._rows = sorted(aborted, key=lambda each: each.last_offset)
        self._last = array("q", [each.last_offset for each in self._rows])
        firsts = (each.first_offset for each in reversed(self._rows))
        self._lowest = array("q", accumulate(firsts, min))
        self._lowest.reverse()

    def between(self, start: int, end: int) -> Iterator[AbortedTransaction]:
        for at in range(bisect_left(self._last, start), len(self._rows)):
            if self._lowest[at] >= end:
                break
            if self._rows[at].first_offset < end:
                yield self._rows[at]


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """The layout of a segment.  check: the index's CRC, which the cluster state keeps."""

    topic_id: bytes
    partition: int
    base_offset: int
    next_offset: int
    chunks: tuple[Chunk, ...]
    aborted: tuple[AbortedTransaction, ...]
    check: int
    _by_end: _AbortedByEnd = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_end", _AbortedByEnd(self.aborted))

    def aborted_between(self, start: int, end: int) -> Iterator[AbortedTransaction]:
        """Yield the transactions that began below `end` and ended at `start` or later."""
        return self._by_end.between(start, end)

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes of memory it takes."""
        return 700 + 400 * len(self.chunks) + 230 * len(self.aborted)


def header_bytes(topic_id: bytes, partition: int, base_offset: int) -> bytes:
    """Return the first bytes of a segment."""
    fields = _HEADER.pack(MAGIC, MAJOR_VERSION, MINOR_VERSION, partition, topic_id, base_offset)
    return fields + _CRC.pack(crc32c(fields))


def tail_bytes(index: SegmentIndex, position: int) -> tuple[bytes, int]:
    """Return index and trailer, and the check; index.check is ignored."""
    what = (index.topic_id, index.partition, index.base_offset, index.next_offset)
    parts = [_WHAT.pack(MAJOR_VERSION, MINOR_VERSION, *what)]
    parts.append(_COUNT.pack(len(index.chunks)))
    parts += [_CHUNK.pack(*each) for each in index.chunks]
    aborted = b"".join([_ABORTED.pack(*each) for each in index.aborted])
    parts.append(_COUNT.pack(1 if aborted else 0))
    if aborted:
        parts += [_TAG.pack(TAG_ABORTED, len(aborted)), aborted]
    footer = b"".join(parts)
    check = _tail_crc(footer, position)
    return footer + TRAILER.pack(position, len(footer), check, END_MAGIC), check


def read_tail(tail: Buffer, position: int) -> SegmentIndex:
    """Read index and trailer.

    Args:
      tail: everything after the batches.  position: the position of its first byte in the object.

    Raises:
      CorruptObject: says what is wrong.
      UnknownVersion: a newer release wrote the object.
    """
    view = memoryview(tail)
    check_tail(view, position)
    return read_index(view, position)


def check_tail(tail: Buffer, position: int) -> None:
    """Check everything but the index's content.  Args: as read_tail().

    Raises:
      CorruptObject, UnknownVersion: as read_tail().
    """
    view = memoryview(tail)
    if len(view) < _VERSIONS.size + TRAILER.size:
        raise CorruptObject(f"{len(view)} bytes are too few for the index of a segment")
    at, length, check, magic = TRAILER.unpack_from(view, len(view) - TRAILER.size)
    if magic != END_MAGIC:
        raise CorruptObject("the last bytes are not those of a segment: it was cut or damaged")
    footer = view[: len(view) - TRAILER.size]
    if at != position or length != len(footer):
        raise CorruptObject("the trailer does not point at the index")
    if _tail_crc(footer, position) != check:
        raise CorruptObject("the CRC of the index is wrong")
    # After the CRC check: a damaged byte must not look like a newer release.
    _check_major(_VERSIONS.unpack_from(view)[0])


def read_index(tail: Buffer, position: int) -> SegmentIndex:
    """Read the index of a tail that check_tail() has seen.  Args: as read_tail().

    Raises:
      CorruptObject: its chunks do not fill the segment.
    """
    view = memoryview(tail)
    check = TRAILER.unpack_from(view, len(view) - TRAILER.size)[2]
    try:
        return _read_index(view[: len(view) - TRAILER.size], check, position)
    except error:
        raise CorruptObject("the index ends too early") from None


def index_position(trailer: Buffer, size_bytes: int) -> int:
    """Return where the index begins, from the last TRAILER.size bytes of a segment of that size.

    Raises:
      CorruptObject: says what is wrong.
    """
    position: int
    position, length, _, magic = TRAILER.unpack(trailer)
    if magic != END_MAGIC:
        raise CorruptObject("the last bytes are not those of a segment: it was cut or damaged")
    if position < HEADER_BYTES or position + length != size_bytes - TRAILER.size:
        raise CorruptObject("the trailer points outside the object")
    return position


def read_segment(body: Buffer) -> SegmentIndex:
    """Read a whole segment and verify every byte of it; the batches' headers are not parsed.

    Raises:
      CorruptObject: says what is wrong.
      UnknownVersion: a newer release wrote the object.
    """
    index, view = segment_index(body), memoryview(body)
    for chunk in index.chunks:
        if crc32c(view[chunk.position : chunk.position + chunk.length]) != chunk.crc32c:
            raise CorruptObject(f"the CRC of the chunk at byte {chunk.position} is wrong")
    return index


def segment_index(body: Buffer) -> SegmentIndex:
    """Read header, index and trailer of a whole segment; raises as read_segment().

    The caller verifies each chunk that it reads by the chunk's CRC in the index.
    """
    view = memoryview(body)
    what = read_head(view)[:3]
    if len(view) < HEADER_BYTES + TRAILER.size:
        raise CorruptObject(f"{len(view)} bytes are too few for a segment")
    position = index_position(view[len(view) - TRAILER.size :], len(view))
    index = read_tail(view[position:], position)
    if what != (index.topic_id, index.partition, index.base_offset):
        raise CorruptObject("header and index are those of different segments")
    return index


def _tail_crc(footer: Buffer, position: int) -> int:
    return crc32c(_PLACE.pack(position, len(footer)), crc32c(footer))


def _check_major(major: int) -> None:
    """Refuse another major version: its layout may differ."""
    if major != MAJOR_VERSION:
        raise UnknownVersion(
            f"a newer release wrote this segment: it has format {major}, this release reads format"
            f" {MAJOR_VERSION}"
        )


class SegmentHead(NamedTuple):
    """The fields of a segment's header."""

    topic_id: bytes
    partition: int
    base_offset: int
    major: int
    minor: int


def read_head(head: Buffer) -> SegmentHead:
    """Read the first HEADER_BYTES; later bytes are ignored.

    Raises:
      CorruptObject: says what is wrong.
      UnknownVersion: a newer release wrote the object.
    """
    view = memoryview(head)
    if len(view) < HEADER_BYTES or bytes(view[: len(MAGIC)]) != MAGIC:
        raise CorruptObject("the first bytes are not those of a segment")
    _, major, minor, partition, topic_id, base_offset = _HEADER.unpack_from(view)
    _check_major(major)
    if crc32c(view[: _HEADER.size]) != _CRC.unpack_from(view, _HEADER.size)[0]:
        raise CorruptObject("the CRC of the header is wrong")
    return SegmentHead(topic_id, partition, base_offset, major, minor)


def _read_index(footer: memoryview, check: int, position: int) -> SegmentIndex:
    _, _minor, topic_id, partition, base_offset, next_offset = _WHAT.unpack_from(footer)
    (count,) = _COUNT.unpack_from(footer, _WHAT.size)
    start = _WHAT.size + _COUNT.size
    end = start + count * _CHUNK.size
    if end > len(footer):
        raise CorruptObject("the index ends too early")
    chunks = tuple(Chunk(*row) for row in _CHUNK.iter_unpack(footer[start:end]))
    aborted: tuple[AbortedTransaction, ...] = ()
    for tag, data in _tags(footer, end):
        if tag == TAG_ABORTED:
            aborted = tuple(AbortedTransaction(*row) for row in _ABORTED.iter_unpack(data))
    index = SegmentIndex(topic_id, partition, base_offset, next_offset, chunks, aborted, check)
    _check_places(index, position)
    return index


def _tags(footer: memoryview, at: int) -> Iterator[tuple[int, memoryview]]:
    (count,) = _COUNT.unpack_from(footer, at)
    at += _COUNT.size
    for _ in range(count):
        tag, length = _TAG.unpack_from(footer, at)
        at += _TAG.size
        if at + length > len(footer):
            raise CorruptObject("the index ends within a tag")
        yield tag, footer[at : at + length]
        at += length
    if at != len(footer):
        raise CorruptObject("the index has the wrong length")


def _check_places(index: SegmentIndex, end_position: int) -> None:
    """Check that the chunks fill the segment in order, without gaps in bytes and offsets."""
    offset, position = index.base_offset, HEADER_BYTES
    for chunk in index.chunks:
        if chunk.base_offset != offset or chunk.position != position:
            raise CorruptObject(f"the chunk at byte {chunk.position} stands out of place")
        if chunk.next_offset <= offset or not chunk.length:
            raise CorruptObject(f"the chunk at byte {chunk.position} holds nothing")
        offset, position = chunk.next_offset, position + chunk.length
    if not index.chunks or offset != index.next_offset or position != end_position:
        raise CorruptObject(f"the chunks end at offset {offset} and byte {position}")
