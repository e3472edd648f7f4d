"""The bytes of a WAL object around its slices: header, footer, trailer.  Pure.

    header    magic 8, major u16, minor u16, node id i32, incarnation i64, counter i64
    slices    sorted by (topic id, partition), without gaps
    footer    slice count u32; per slice: topic id 16, partition i32, start u64, size u32,
              record count u64, min timestamp i64, max timestamp i64, CRC-32C u32;
              tag count u32; per tag: tag u32, length u32, bytes
    trailer   footer position u64, footer length u32, CRC-32C u32, magic 8

All numbers are big-endian.  The trailer's CRC covers header, footer and the trailer before it, so
together with the CRCs of the slices every changed byte is noticed.  A minor version adds tags,
which older readers pass over; a major version may change anything.

Tag 3 says that all batches were committed before, as those of inlined objects (decision 49): it
holds, for all bytes of the slices in order: incarnation i64 and counter i64 of the inlined object,
length u32.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from struct import Struct, error
from typing import NamedTuple

from crc32c import crc32c

from ..stores.object_store import Buffer
from .corrupt import CorruptObject, UnknownVersion

MAGIC = b"TIDEWAL\n"
END_MAGIC = b"\nLAWEDIT"
MAJOR_VERSION = 1
MINOR_VERSION = 1

TAG_SOURCES = 3

HEADER = Struct(">8sHHiqq")
TRAILER = Struct(">QII8s")
_COUNT = Struct(">I")
# The record count is the sum of what clients claim, up to 2^31 - 1 for each batch.
_ENTRY = Struct(">16siQIQqqI")
_TAG = Struct(">II")
_PLACE = Struct(">QI")
_SOURCE = Struct(">qqI")


class WalIdentity(NamedTuple):
    """Names a WAL object for ever: a gateway, its incarnation, and a counter within that."""

    node_id: int
    incarnation: int
    counter: int


class Slice(NamedTuple):
    """The contiguous bytes of one partition in one WAL object: one or more record batches.

    Timestamps are milliseconds since 1970: the lowest and the highest of its batches' max
    timestamps.  The CRC is that of the stored bytes, before offsets are patched in.
    """

    topic_id: bytes
    partition: int
    start_byte: int
    size_bytes: int
    record_count: int
    min_timestamp: int
    max_timestamp: int
    crc32c: int


class Source(NamedTuple):
    """The inlined object that held the batches of some bytes before; see TAG_SOURCES."""

    incarnation: int
    counter: int
    length: int


class Footer(NamedTuple):
    """The content of a footer.  sources: empty unless the object has the tag."""

    slices: list[Slice]
    sources: tuple[Source, ...]


MIN_BYTES = HEADER.size + 2 * _COUNT.size + TRAILER.size
"""The size of an object without slices and tags."""


def header_bytes(identity: WalIdentity) -> bytes:
    return HEADER.pack(MAGIC, MAJOR_VERSION, MINOR_VERSION, *identity)


def tail_size_bytes(slice_count: int, source_count: int = 0) -> int:
    """Return the size of footer and trailer, bytes."""
    tags = _TAG.size + source_count * _SOURCE.size if source_count else 0
    return 2 * _COUNT.size + slice_count * _ENTRY.size + tags + TRAILER.size


def tail_bytes(
    header: bytes, footer_position: int, slices: Sequence[Slice], sources: Sequence[Source] = ()
) -> bytes:
    """Return footer and trailer; without sources, the object has no tag."""
    entries = b"".join([_ENTRY.pack(*entry) for entry in slices])
    footer = _COUNT.pack(len(slices)) + entries + _COUNT.pack(1 if sources else 0)
    if sources:
        rows = b"".join([_SOURCE.pack(*each) for each in sources])
        footer += _TAG.pack(TAG_SOURCES, len(rows)) + rows
    crc = _frame_crc(header, footer, footer_position)
    return footer + TRAILER.pack(footer_position, len(footer), crc, END_MAGIC)


def read_frame(body: memoryview) -> tuple[WalIdentity, Footer]:
    """Read and check header, footer and trailer; the slices' own bytes are not read.

    Raises:
      CorruptObject: says what is wrong.
      UnknownVersion: a newer release wrote the object.
    """
    if len(body) < MIN_BYTES:
        raise CorruptObject(f"{len(body)} bytes are too few for a WAL object")
    head = body[: HEADER.size]
    identity = read_head(head)[0]
    place = read_trailer(body[len(body) - TRAILER.size :], len(body))
    footer = body[place.position : place.position + place.length]
    check_frame(head, footer, place)
    return identity, read_footer(footer, place.position)


class FooterPlace(NamedTuple):
    """The trailer's fields: where the footer is, and the CRC of header, footer and trailer."""

    position: int
    length: int
    crc32c: int


def _frame_crc(header: Buffer, footer: Buffer, footer_position: int) -> int:
    place = _PLACE.pack(footer_position, len(footer))
    return crc32c(place, crc32c(footer, crc32c(header)))


def read_head(head: Buffer) -> tuple[WalIdentity, tuple[int, int]]:
    """Read the first HEADER.size bytes; return the identity, and major and minor version.

    Raises:
      CorruptObject: it is no WAL object.
      UnknownVersion: a newer release wrote the object.
    """
    magic, major, minor, node_id, incarnation, counter = HEADER.unpack(head)
    if magic != MAGIC:
        raise CorruptObject("the first bytes are not those of a WAL object")
    if major != MAJOR_VERSION:
        raise UnknownVersion(
            f"this WAL object has format {major}; this release reads format {MAJOR_VERSION}"
        )
    return WalIdentity(node_id, incarnation, counter), (major, minor)


def read_trailer(trailer: Buffer, size_bytes: int) -> FooterPlace:
    """Read the last TRAILER.size bytes of an object of that size.

    Raises:
      CorruptObject: says what is wrong.
    """
    position, length, crc, magic = TRAILER.unpack(trailer)
    if magic != END_MAGIC:
        raise CorruptObject("the last bytes are not those of a WAL object: it was cut or damaged")
    if position < HEADER.size or position + length != size_bytes - TRAILER.size:
        raise CorruptObject("the trailer points outside the object")
    return FooterPlace(position, length, crc)


def check_frame(head: Buffer, footer: Buffer, place: FooterPlace) -> None:
    """Check the CRC of header, footer and trailer.

    Raises:
      CorruptObject: it is wrong.
    """
    if _frame_crc(head, footer, place.position) != place.crc32c:
        raise CorruptObject("the CRC of header and footer is wrong")


def read_footer(footer: Buffer, footer_position: int) -> Footer:
    """Read the footer, and check that its slices are in order and fill the object.

    Raises:
      CorruptObject: says what is wrong.
    """
    found = _read_footer(memoryview(footer))
    _check_places(found.slices, footer_position)
    covered, whole = sum([each.length for each in found.sources]), footer_position - HEADER.size
    if found.sources and covered != whole:
        raise CorruptObject(f"the footer names the sources of {covered} bytes instead of {whole}")
    return found


def _read_footer(footer: memoryview) -> Footer:
    try:
        (count,) = _COUNT.unpack_from(footer)
        end = _COUNT.size + count * _ENTRY.size
        slices = [Slice(*entry) for entry in _ENTRY.iter_unpack(footer[_COUNT.size : end])]
        sources, tags_end = _read_tags(footer, end)
    except error:
        raise CorruptObject("the footer ends too early") from None
    if len(slices) != count or tags_end != len(footer):
        raise CorruptObject("the footer has the wrong length")
    return Footer(slices, sources)


def _read_tags(footer: memoryview, position: int) -> tuple[tuple[Source, ...], int]:
    """Return the sources, and the position after all tags; later versions have more tags."""
    sources: tuple[Source, ...] = ()
    (count,) = _COUNT.unpack_from(footer, position)
    position += _COUNT.size
    for _ in range(count):
        tag, length = _TAG.unpack_from(footer, position)
        position += _TAG.size
        if tag == TAG_SOURCES:
            rows = _SOURCE.iter_unpack(footer[position : position + length])
            sources = tuple([Source(*row) for row in rows])
        position += length
    return sources, position


def _check_places(slices: Sequence[Slice], footer_position: int) -> None:
    """Check that the slices fill the object in order, without gaps."""
    end = HEADER.size
    for entry in slices:
        if entry.start_byte != end:
            raise CorruptObject(f"the slice at byte {entry.start_byte} should begin at {end}")
        end += entry.size_bytes
    if end != footer_position:
        raise CorruptObject(f"the slices end at byte {end}, the footer begins at {footer_position}")
    for before, after in pairwise(slices):
        if before[:2] >= after[:2]:
            raise CorruptObject(f"the slice at byte {after.start_byte} stands out of order")
