"""Kafka's codecs, with the decompressed size bounded.

A declared size is never trusted: output is limited while it grows, or the size is compared with the
limit before a byte is allocated (CVE-2023-34455 came from such trust).  Output comes in pieces, so
a caller that looks at each piece once needs little memory.

Framings: gzip is one member, since librdkafka stops for good at a second one; lz4 is one frame with
independent blocks (the Java client refuses linked ones); snappy is either xerial-framed (Java, most
others) or one raw block (librdkafka).  No bytes follow any of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import cramjam
import lz4.frame
import zstandard

from .errors import InvalidBatch, InvalidReason, RemoteProtocolError
from .primitives import Buffer, read_uvarint

_lz4: Any = lz4.frame  # it has no type hints

_GZIP_WBITS = 31
_INPUT_BYTES = 64 * 1024
_PIECE_BYTES = 256 * 1024
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEAD = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
_XERIAL_BLOCK_BYTES = 32 * 1024
_FOREIGN_ERRORS = (
    zlib.error,
    RuntimeError,  # lz4
    EOFError,
    ValueError,
    IndexError,
    RemoteProtocolError,  # the length before a snappy block
    zstandard.ZstdError,
    cramjam.DecompressionError,
)


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(data: Buffer, codec: int, *, max_bytes: int) -> Buffer:
    """Return the decompressed data; the data itself for Codec.NONE.

    Raises:
      InvalidBatch: as pieces().
    """
    if codec == Codec.NONE:
        return data
    found = list(pieces(data, codec, max_bytes=max_bytes))
    return found[0] if len(found) == 1 else b"".join(found)


def pieces(data: Buffer, codec: int, *, max_bytes: int) -> Iterator[Buffer]:
    """Yield the decompressed data in pieces of some 256 KiB; the data itself for Codec.NONE.

    Raw snappy, as librdkafka writes it, is one block, and so one piece.

    Raises:
      InvalidBatch: while iterating; the data is damaged (CORRUPT), larger than max_bytes, or of a
          codec that does not exist (INVALID_RECORD).
    """
    if codec == Codec.NONE:
        yield data
        return
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise InvalidBatch(InvalidReason.INVALID_RECORD, f"no codec has number {codec}")
    try:
        yield from decompressor(bytes(data), _Room(max_bytes))
    except _FOREIGN_ERRORS as error:
        name = Codec(codec).name.lower()
        raise InvalidBatch(InvalidReason.CORRUPT, f"damaged {name} data: {error}") from error


def compress(data: Buffer, codec: int, *, level: int | None = None) -> bytes:
    """Compress data as clients of every language can read it.

    Args:
      level: the codec's own scale; its default when None.  Snappy has none.
    """
    return b"".join(compressed_pieces(data, codec, level=level))


def compressed_pieces(data: Buffer, codec: int, *, level: int | None = None) -> Iterator[bytes]:
    """Yield the result of compress() in pieces, each for some 256 KiB of data; some are empty."""
    if codec == Codec.NONE:
        yield bytes(data)
        return
    if codec == Codec.SNAPPY:
        yield _XERIAL_HEAD
        yield from map(_compress_snappy, _slices(data))
        return
    packer = _compressor(codec, len(data), level)
    if codec == Codec.LZ4:
        yield bytes(packer.begin())
    for each in _slices(data):
        yield bytes(packer.compress(each))
    yield bytes(packer.flush())


def _compressor(codec: int, size: int, level: int | None) -> Any:
    if codec == Codec.GZIP:
        return zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
    if codec == Codec.LZ4:
        return _lz4.LZ4FrameCompressor(
            compression_level=level or 0,
            block_size=_lz4.BLOCKSIZE_MAX64KB,
            block_linked=False,
        )
    return zstandard.ZstdCompressor(level=3 if level is None else level).compressobj(size=size)


def _slices(data: Buffer) -> Iterator[memoryview]:
    view = memoryview(data)
    for start in range(0, len(view), _PIECE_BYTES):
        yield view[start : start + _PIECE_BYTES]


class _Room:
    """Counts how many more bytes may be decompressed."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.left = max_bytes

    def take(self, size: int) -> None:
        """Count bytes; raise if there are too many."""
        if size > self.left:
            message = f"records are larger than {self._max_bytes} bytes when decompressed"
            raise InvalidBatch(InvalidReason.INVALID_RECORD, message)
        self.left -= size


def _decompress_gzip(data: bytes, room: _Room) -> Iterator[bytes]:
    """Decompress gzip; zlib copies input that it has not used yet, so it gets little at a time."""
    member = zlib.decompressobj(_GZIP_WBITS)
    view, position = memoryview(data), 0
    piece: bytes | memoryview = b""
    while not member.eof:
        if not piece:
            piece = view[position : position + _INPUT_BYTES]
            if not piece:
                raise EOFError("the data ends early")
            position += len(piece)
        out = member.decompress(piece, min(_PIECE_BYTES, room.left + 1))
        piece = member.unconsumed_tail
        room.take(len(out))
        yield out
    if member.unused_data or position < len(view):
        raise EOFError("bytes follow the member")


def _decompress_lz4(data: bytes, room: _Room) -> Iterator[bytes]:
    """Decompress lz4, in small pieces.

    The library allocates the most that it may return, and copies input that it has not read yet.
    So it gets little at a time, and may return little.
    """
    frame = _lz4.LZ4FrameDecompressor()
    position = 0
    while not frame.eof:
        piece = b""
        if frame.needs_input:
            piece = data[position : position + _INPUT_BYTES]
            if not piece:
                raise EOFError("the data ends early")
            position += len(piece)
        out = frame.decompress(piece, max_length=min(_PIECE_BYTES, room.left + 1))
        if not piece and not out:
            raise EOFError("the data ends early")
        room.take(len(out))
        yield out
    if frame.unused_data or position < len(data):
        raise EOFError("bytes follow the frame")


def _decompress_zstd(data: bytes, room: _Room) -> Iterator[bytes]:
    # The library's own window limit (128 MiB) admits what the Java client writes at level 22.
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    # The library allocates the whole size that a read requests.
    while out := reader.read(min(_PIECE_BYTES, room.left + 1)):
        room.take(len(out))
        yield out


def _decompress_snappy(data: bytes, room: _Room) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield _decompress_snappy_block(data, room)
        return
    position = len(_XERIAL_HEAD)
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            raise EOFError("a block ends early")
        yield _decompress_snappy_block(data[start:position], room)


def _decompress_snappy_block(block: bytes, room: _Room) -> bytes:
    size, _ = read_uvarint(memoryview(block), 0)
    room.take(size)
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_snappy(raw: memoryview) -> bytes:
    out = bytearray()
    for start in range(0, len(raw), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(raw[start : start + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


_DECOMPRESSORS = {
    Codec.GZIP.value: _decompress_gzip,
    Codec.SNAPPY.value: _decompress_snappy,
    Codec.LZ4.value: _decompress_lz4,
    Codec.ZSTD.value: _decompress_zstd,
}
