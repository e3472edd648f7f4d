"""Compaction checks the sizes that stored batches claim before it uses them."""

import tracemalloc

import pytest

from tidegate_pipeline.tasks.compaction import AbortedSet, Cleaner, LatestOffsets
from tidegate_pipeline.tasks.record_spans import record_spans
from tidegate_protocol.batches import packed
from tidegate_protocol.compression import Codec
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.primitives import write_varint
from tidegate_protocol.records import Record, build_batch, read_header

MIB = 1 << 20


def claiming(count: int, key_bytes: int, padding: int) -> bytes:
    """Return records whose keys claim many bytes that belong to later records."""
    out = bytearray()
    for index in range(count):
        body = bytearray(2)
        write_varint(body, index)
        write_varint(body, key_bytes)
        body += bytes(16 - len(body))
        write_varint(out, len(body))
        out += body
    return bytes(out) + bytes(padding)


def bomb(payload: bytes, count: int, codec: int) -> memoryview:
    template = build_batch([Record(0, 1000, b"k", b"v")])
    header = read_header(template)._replace(last_offset_delta=count - 1, record_count=count)
    return packed(header, payload, codec=codec)[0]


def test_a_key_that_passes_its_record_is_refused_before_it_is_copied() -> None:
    payload = claiming(20, 5 * MIB, 20 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBatch):
            record_spans(payload, 20)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_of_false_sizes_stays_as_it_is_in_little_memory(codec: Codec) -> None:
    batch = bomb(claiming(20, 5 * MIB, 32 * MIB), 20, codec)
    latest = LatestOffsets(20)
    tracemalloc.start()
    try:
        latest.add(batch, AbortedSet())
        cleaner = Cleaner(latest, 0, AbortedSet())
        assert cleaner.clean(batch, is_last=False) is batch
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB + 2 * len(batch)
    finally:
        tracemalloc.stop()
    assert cleaner.removed.unreadable == 1
    assert not latest.offsets
