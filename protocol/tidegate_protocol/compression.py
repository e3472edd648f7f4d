"""Kafka's codecs, with the decompressed size bounded.

A declared size is never believed: output is limited while it grows, or compared with the limit
before a byte is allocated (CVE-2023-34455 was such a belief).

Framings: gzip may hold several members; lz4 is the frame format with independent blocks (the Java
client refuses linked ones); snappy is either xerial-framed (Java, most others) or one raw block
(librdkafka).
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Any

import cramjam
import lz4.frame
import zstandard

from .errors import InvalidBatch, InvalidReason, RemoteProtocolError
from .primitives import Buffer, read_uvarint

_lz4: Any = lz4.frame  # it has no types

_GZIP_WBITS = 31
_FIRST_GZIP_BYTES = 4096
_FIRST_LZ4_BYTES = 64 * 1024
_ZSTD_PIECE_BYTES = 1 << 20
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
      InvalidBatch: the data is damaged (CORRUPT), larger than max_bytes, or of a codec that
          does not exist (INVALID_RECORD).
    """
    if codec == Codec.NONE:
        return data
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise InvalidBatch(InvalidReason.INVALID_RECORD, f"no codec has number {codec}")
    try:
        return decompressor(bytes(data), max_bytes)
    except _FOREIGN_ERRORS as error:
        name = Codec(codec).name.lower()
        raise InvalidBatch(InvalidReason.CORRUPT, f"damaged {name} data: {error}") from error


def compress(data: Buffer, codec: int, *, level: int | None = None) -> bytes:
    """Compress data as clients of every language can read it.

    Args:
      level: the codec's own scale; its default when None.  Snappy has none.
    """
    raw = bytes(data)
    if codec == Codec.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return packer.compress(raw) + packer.flush()
    if codec == Codec.SNAPPY:
        return _compress_snappy(raw)
    if codec == Codec.LZ4:
        return bytes(
            _lz4.compress(
                raw,
                compression_level=level or 0,
                block_size=_lz4.BLOCKSIZE_MAX64KB,
                block_linked=False,
                store_size=False,
            )
        )
    if codec == Codec.ZSTD:
        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(raw)
    return raw


def _too_large(max_bytes: int) -> InvalidBatch:
    message = f"records are larger than {max_bytes} bytes when decompressed"
    return InvalidBatch(InvalidReason.INVALID_RECORD, message)


def _decompress_gzip(data: bytes, max_bytes: int) -> bytes:
    out = bytearray()
    view, position = memoryview(data), 0
    while position < len(view):
        position = _decompress_gzip_member(view, position, out, max_bytes)
    return bytes(out)


def _decompress_gzip_member(data: memoryview, position: int, out: bytearray, max_bytes: int) -> int:
    """Append a member's text to out; return where the next one begins.

    zlib copies the input that it does not use, so it gets little at first: else thousands of tiny
    members would copy all later bytes thousands of times.
    """
    member = zlib.decompressobj(_GZIP_WBITS)
    size = _FIRST_GZIP_BYTES
    while not member.eof:
        piece = data[position : position + size]
        if not piece:
            raise EOFError("the data ends early")
        out += member.decompress(piece, max_bytes - len(out) + 1)
        if len(out) > max_bytes:
            raise _too_large(max_bytes)
        position += len(piece) - len(member.unused_data)
        size *= 2
    return position


def _decompress_lz4(data: bytes, max_bytes: int) -> bytes:
    """The library allocates what it may return, and copies what it has not read yet.

    So it may return little at first, and then twice as much each time.
    """
    frame = _lz4.LZ4FrameDecompressor()
    out = bytearray()
    size = max(_FIRST_LZ4_BYTES, 2 * len(data))
    while not frame.eof:
        piece = frame.decompress(data, max_length=min(size, max_bytes + 1 - len(out)))
        out += piece
        if len(out) > max_bytes:
            raise _too_large(max_bytes)
        if not frame.eof and (frame.needs_input or not piece):
            raise EOFError("the data ends early")
        data = b""
        size *= 2
    return bytes(out)


def _decompress_zstd(data: bytes, max_bytes: int) -> bytes:
    # The library's own window limit (128 MiB) admits what the Java client writes at level 22.
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    out = bytearray()
    # The library allocates the whole size that one read requests.
    while piece := reader.read(min(_ZSTD_PIECE_BYTES, max_bytes + 1 - len(out))):
        out += piece
        if len(out) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(out)


def _decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, max_bytes, max_bytes)
    out = bytearray()
    position = len(_XERIAL_HEAD)
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            raise EOFError("a block ends early")
        out += _decompress_snappy_block(data[start:position], max_bytes - len(out), max_bytes)
    return bytes(out)


def _decompress_snappy_block(block: bytes, room_bytes: int, max_bytes: int) -> bytes:
    size, _ = read_uvarint(memoryview(block), 0)
    if size > room_bytes:
        raise _too_large(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_snappy(raw: bytes) -> bytes:
    out = bytearray(_XERIAL_HEAD)
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
