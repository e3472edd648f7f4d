from __future__ import annotations

import gzip
import struct
import tracemalloc
from random import Random

import cramjam
import lz4.frame
import pytest
import zstandard

from tidegate_protocol.compression import Codec, compress, decompress
from tidegate_protocol.errors import InvalidBatch, InvalidReason

DATA = b"".join(b"line %d of the text\n" % number for number in range(5_000))
each_codec = pytest.mark.parametrize("codec", list(Codec)[1:], ids=lambda codec: codec.name.lower())


def reason(data: bytes, codec: int, max_bytes: int = 1 << 20) -> InvalidReason:
    with pytest.raises(InvalidBatch) as caught:
        decompress(data, codec, max_bytes=max_bytes)
    return caught.value.reason


@each_codec
@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["empty", "one", "text"])
def test_compressed_data_is_decompressed(codec: Codec, data: bytes) -> None:
    packed = compress(data, codec)
    assert decompress(memoryview(packed), codec, max_bytes=len(data)) == data


@each_codec
def test_a_level_changes_the_size_only(codec: Codec) -> None:
    packed = compress(DATA, codec, level=9)
    assert decompress(packed, codec, max_bytes=len(DATA)) == DATA


@each_codec
def test_one_byte_above_the_limit_is_refused(codec: Codec) -> None:
    packed = compress(DATA, codec)
    assert reason(packed, codec, len(DATA) - 1) is InvalidReason.INVALID_RECORD


@each_codec
def test_a_bomb_costs_no_more_than_its_limit(codec: Codec) -> None:
    bomb = compress(bytes(64 << 20), codec)
    tracemalloc.start()
    assert reason(bomb, codec, 1 << 20) is InvalidReason.INVALID_RECORD
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(bomb) + (8 << 20)


@each_codec
def test_garbage_is_corrupt(codec: Codec) -> None:
    assert reason(b"\x03garbage, not compressed", codec) is InvalidReason.CORRUPT


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    assert reason(b"", codec) is InvalidReason.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_cut_data_is_corrupt(codec: Codec) -> None:
    packed = compress(DATA, codec)
    for size in (len(packed) - 1, len(packed) // 2):
        assert reason(packed[:size], codec) is InvalidReason.CORRUPT


def test_cut_zstd_data_gives_no_more_than_there_was() -> None:
    packed = compress(DATA, Codec.ZSTD)
    found = decompress(packed[: len(packed) // 2], Codec.ZSTD, max_bytes=1 << 20)
    assert DATA.startswith(found)  # too short: the records end early


def test_an_xerial_block_may_not_pass_the_end() -> None:
    packed = compress(b"abc", Codec.SNAPPY)
    longer = packed[:16] + (99).to_bytes(4, "big") + packed[20:]
    assert reason(longer, Codec.SNAPPY) is InvalidReason.CORRUPT


def test_uncompressed_data_is_not_copied() -> None:
    assert decompress(DATA, Codec.NONE, max_bytes=0) is DATA


# mtime is fixed, since the names of the tests must be the same in all processes.
@pytest.mark.parametrize(
    "more", [b"\0", b"text", gzip.compress(b"", mtime=0), gzip.compress(b"more", mtime=0)]
)
@pytest.mark.parametrize("size", [0, 10, 1 << 20])
def test_bytes_behind_a_gzip_member_are_corrupt(more: bytes, size: int) -> None:
    packed = gzip.compress(Random(1).randbytes(size))
    assert reason(packed + more, Codec.GZIP) is InvalidReason.CORRUPT
    assert len(decompress(packed, Codec.GZIP, max_bytes=size)) == size


@pytest.mark.parametrize("more", [b"\0", bytes(16), b"text", lz4.frame.compress(b"")])
@pytest.mark.parametrize("size", [10, 1 << 20])
def test_bytes_behind_an_lz4_frame_are_corrupt(more: bytes, size: int) -> None:
    packed = lz4.frame.compress(Random(1).randbytes(size))
    assert reason(packed + more, Codec.LZ4) is InvalidReason.CORRUPT
    assert len(decompress(packed, Codec.LZ4, max_bytes=size)) == size


def test_raw_snappy_of_librdkafka_is_read() -> None:
    packed = bytes(cramjam.snappy.compress_raw(DATA))
    assert decompress(packed, Codec.SNAPPY, max_bytes=len(DATA)) == DATA


def test_a_lying_snappy_size_allocates_nothing() -> None:
    assert reason(b"\xff\xff\xff\xff\x0f" + b"x", Codec.SNAPPY) is InvalidReason.INVALID_RECORD


def test_a_lying_lz4_size_allocates_nothing() -> None:
    packed = bytearray(lz4.frame.compress(b"abc", store_size=True))
    struct.pack_into("<Q", packed, 6, 1 << 60)
    assert reason(bytes(packed), Codec.LZ4) is InvalidReason.CORRUPT


def test_zstd_without_a_content_size_is_read() -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False)
    assert decompress(packer.compress(DATA), Codec.ZSTD, max_bytes=len(DATA)) == DATA


def test_our_lz4_has_independent_blocks() -> None:
    # Bit 5 of the flag byte: independent blocks. The Java client refuses blocks that depend on
    # earlier blocks.
    assert compress(DATA, Codec.LZ4)[4] & 0x20
