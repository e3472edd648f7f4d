"""Compressed data with false sizes: every function raises InvalidBatch, and none becomes slow."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc

import pytest

from tidegate_protocol.batches import HEADER
from tidegate_protocol.compression import Codec, compress, decompress
from tidegate_protocol.errors import InvalidBatch, InvalidReason
from tidegate_protocol.primitives import write_varint
from tidegate_protocol.records import MAX_HEADERS, Record, build_batch, decode_records

XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
LONG_VARINT = b"\xff" * 10
LARGE_VARINT = b"\xff\xff\xff\xff\x7f"


@pytest.mark.parametrize("head", [b"", XERIAL + struct.pack(">i", 10)], ids=["raw", "xerial"])
@pytest.mark.parametrize("length", [LONG_VARINT, LARGE_VARINT], ids=["endless", "above 32 bits"])
def test_a_snappy_length_that_is_none_is_corrupt(head: bytes, length: bytes) -> None:
    with pytest.raises(InvalidBatch) as caught:
        decompress(head + length.ljust(10, b"\0"), Codec.SNAPPY, max_bytes=1 << 20)
    assert caught.value.reason is InvalidReason.CORRUPT


def test_records_after_a_hostile_length_are_an_invalid_batch() -> None:
    batch = build_batch([Record(0, 0, None, b"v")], codec=Codec.SNAPPY)[:61] + LONG_VARINT
    whole = batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:]
    with pytest.raises(InvalidBatch):
        list(decode_records(whole, max_decompressed_bytes=1 << 20))


def bomb(headers: int) -> bytes:
    """A batch of one record with this many empty headers."""
    body = bytearray(b"\0\0\0\1\1")
    write_varint(body, headers)
    body += b"\0\1" * headers
    record = bytearray()
    write_varint(record, len(body))
    payload = compress(bytes(record + body), Codec.ZSTD)
    head = HEADER.pack(0, 49 + len(payload), -1, 2, 0, Codec.ZSTD, 0, 0, 0, -1, -1, -1, 1)
    return head + payload


def test_a_record_of_millions_of_headers_is_refused_before_they_are_made() -> None:
    batch = bomb(2_000_000)
    assert len(batch) < 1_000
    tracemalloc.start()
    with pytest.raises(InvalidBatch, match="2000000 headers"):
        list(decode_records(batch, max_decompressed_bytes=8 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20
    [record] = decode_records(bomb(MAX_HEADERS), max_decompressed_bytes=8 << 20)
    assert len(record.headers) == MAX_HEADERS


def test_the_gzip_limit_holds_over_all_pieces() -> None:
    packed = gzip.compress(random.Random(1).randbytes(600_000))
    assert len(decompress(packed, Codec.GZIP, max_bytes=600_000)) == 600_000
    with pytest.raises(InvalidBatch, match="larger than 599999"):
        decompress(packed, Codec.GZIP, max_bytes=599_999)


def test_gzip_that_ends_early_is_corrupt() -> None:
    packed = gzip.compress(random.Random(1).randbytes(600_000))
    for size in (0, 5, 300_000, len(packed) - 1):
        with pytest.raises(InvalidBatch, match="ends early"):
            decompress(packed[:size], Codec.GZIP, max_bytes=1 << 20)
