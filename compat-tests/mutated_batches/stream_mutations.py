"""Changes of a codec's stream.  Pure."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam
import lz4.frame
import zstandard

from mutated_batches.draft import Draft
from tidegate_protocol.compression import Codec, compress

Mutation = Callable[[Draft], None]
_GZIP_WBITS: Final = 31
_XERIAL: Final = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


def _cut(size: int) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.packed.append(lambda data: data[: max(len(data) - size, 0)])

    return apply


def _half(draft: Draft) -> None:
    draft.packed.append(lambda data: data[: len(data) // 2])


def _behind(data: bytes) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.packed.append(lambda packed: packed + data)

    return apply


def _as(data: bytes) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.packed.append(lambda _: data)

    return apply


def _raw(draft: Draft) -> None:
    draft.pack = lambda raw: raw


def _of_another(draft: Draft) -> None:
    other = draft.codec % 4 + 1
    draft.pack = lambda raw: compress(raw, other)


def _in_two(draft: Draft) -> None:
    """Write the records as two streams, one after the other."""
    codec = draft.codec

    def pack(raw: bytes) -> bytes:
        half = len(raw) // 2
        return compress(raw[:half], codec) + compress(raw[half:], codec)

    draft.pack = pack


def _another_behind(text: bytes) -> Mutation:
    """Append another whole stream to the stream."""

    def apply(draft: Draft) -> None:
        more = compress(text, draft.codec)
        draft.packed.append(lambda packed: packed + more)

    return apply


def _another_before(draft: Draft) -> None:
    more = compress(b"", draft.codec)
    draft.packed.append(lambda packed: more + packed)


def _flipped(position: int) -> Mutation:
    def apply(draft: Draft) -> None:
        def flip(data: bytes) -> bytes:
            out = bytearray(data)
            out[position] ^= 0x40
            return bytes(out)

        draft.packed.append(flip)

    return apply


def _twice(draft: Draft) -> None:
    codec = draft.codec
    draft.packed.append(lambda packed: compress(packed, codec))


STREAMS: Final[dict[str, Mutation]] = {
    "no stream at all": _as(b""),
    "a stream of one byte": _as(b"\0"),
    "text for a stream": _as(b"this is no stream of any codec"),
    "zeros for a stream": _as(bytes(40)),
    "plain records for a stream": _raw,
    "a stream of another codec": _of_another,
    "a stream cut by 1": _cut(1),
    "a stream cut by 4": _cut(4),
    "a stream cut by 8": _cut(8),
    "half a stream": _half,
    "a zero behind the stream": _behind(b"\0"),
    "3 zeros behind the stream": _behind(bytes(3)),
    "16 zeros behind the stream": _behind(bytes(16)),
    "text behind the stream": _behind(b"text behind the stream"),
    "two streams": _in_two,
    "an empty stream behind": _another_behind(b""),
    "an empty stream before": _another_before,
    "a stream with bytes behind": _another_behind(b"more bytes"),
    "the first byte flipped": _flipped(0),
    "the last byte flipped": _flipped(-1),
    "compressed twice": _twice,
}


def _packed(pack: Callable[[bytes], bytes]) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.pack = pack

    return apply


def _gzip_named(raw: bytes) -> bytes:
    member = bytearray(gzip.compress(raw, mtime=0))
    member[3] |= 8
    return bytes(member[:10]) + b"name\0" + bytes(member[10:])


def _gzip_members(raw: bytes) -> bytes:
    return b"".join(gzip.compress(raw[at : at + 7], mtime=0) for at in range(0, len(raw), 7))


def _deflated(wbits: int) -> Mutation:
    def pack(raw: bytes) -> bytes:
        packer = zlib.compressobj(6, zlib.DEFLATED, wbits)
        return packer.compress(raw) + packer.flush()

    return _packed(pack)


def _stored(raw: bytes) -> bytes:
    packer = zlib.compressobj(0, zlib.DEFLATED, _GZIP_WBITS)
    return packer.compress(raw) + packer.flush()


def _lz4(**options: Any) -> Mutation:
    return _packed(lambda raw: bytes(lz4.frame.compress(raw, **options)))


def _lz4_version(draft: Draft) -> None:
    draft.packed.append(lambda data: data[:4] + bytes([data[4] & 0x3F]) + data[5:])


def _lz4_checksum(draft: Draft) -> None:
    draft.packed.append(lambda data: data[:6] + bytes([data[6] ^ 1]) + data[7:])


def _zstd(**options: Any) -> Mutation:
    return _packed(lambda raw: zstandard.ZstdCompressor(**options).compress(raw))


def _zstd_streamed(raw: bytes) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(raw) + packer.flush()


def _zstd_window(raw: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(raw) + packer.flush()


def _zstd_skippable(raw: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18\4\0\0\0skip" + compress(raw, Codec.ZSTD)


def _snappy_block(raw: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(raw))


def _xerial(raw: bytes, size: int) -> bytes:
    out = _XERIAL
    for at in range(0, len(raw), size):
        block = _snappy_block(raw[at : at + size])
        out += len(block).to_bytes(4, "big") + block
    return out


def _xerial_version(draft: Draft) -> None:
    draft.packed.append(lambda data: data[:11] + b"\2" + data[12:15] + b"\2" + data[16:])


def _xerial_size(size: int) -> Mutation:
    def apply(draft: Draft) -> None:
        draft.packed.append(
            lambda data: data[:16] + size.to_bytes(4, "big", signed=True) + data[20:]
        )

    return apply


OF_CODEC: Final[dict[int, dict[str, Mutation]]] = {
    Codec.GZIP: {
        "a member with a name": _packed(_gzip_named),
        "members of 7 bytes": _packed(_gzip_members),
        "stored, not deflated": _packed(_stored),
        "a zlib stream": _deflated(15),
        "a bare deflate stream": _deflated(-15),
        "a wrong CRC": _flipped(-5),
    },
    Codec.SNAPPY: {
        "a bare block": _packed(_snappy_block),
        "blocks of 7 bytes": _packed(lambda raw: _xerial(raw, 7)),
        "a head of version 2": _xerial_version,
        "a block of size 0": _xerial_size(0),
        "a block of size -1": _xerial_size(-1),
        "a block of size 2^31-1": _xerial_size(2**31 - 1),
        "a head alone": _as(_XERIAL),
        "snappy frames": _packed(lambda raw: bytes(cramjam.snappy.compress(raw))),
    },
    Codec.LZ4: {
        "linked blocks": _lz4(block_linked=True),
        "checksums": _lz4(content_checksum=True, block_checksum=True, block_linked=False),
        "content size": _lz4(store_size=True, block_linked=False),
        "no content size": _lz4(store_size=False, block_linked=False),
        "blocks of 4 MiB": _lz4(block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False),
        "version 0": _lz4_version,
        "a wrong checksum of the head": _lz4_checksum,
    },
    Codec.ZSTD: {
        "a checksum": _zstd(write_checksum=True),
        "no content size": _packed(_zstd_streamed),
        "a window of 128 MiB": _packed(_zstd_window),
        "a skippable frame before": _packed(_zstd_skippable),
        "level 22": _zstd(level=22),
    },
}
"""Other forms of a codec's stream, right and wrong ones."""
