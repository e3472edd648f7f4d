"""Target: segments, read as a gateway and a pipeline task read them."""

from __future__ import annotations

from random import Random
from struct import Struct

from crc32c import crc32c

from tidegate_protocol.batches import set_base_offset
from tidegate_protocol.records import build_batch
from tidegate_storage.objects.corrupt import CorruptObject, UnknownVersion
from tidegate_storage.objects.prepared_runs import CorruptBatches, prepare_chunk
from tidegate_storage.objects.segment_format import (
    HEADER_BYTES,
    TRAILER,
    AbortedTransaction,
    read_segment,
)
from tidegate_storage.objects.segments import FinalBatch, SegmentBuilder

from .record_targets import NOW_MS, some_records

_UINT32 = Struct(">I")
_PLACE = Struct(">QI")
# Versions, topic id, partition, base and next offset, and the count of chunks; then chunks of 56
# bytes.
_FIRST_CHUNK = 4 + 16 + 4 + 8 + 8 + 4
_CHUNK_BYTES = 56
_CHUNK_PLACE = Struct(">QI")
_CHUNK_CRC = 48


def some_segment(rng: Random, batches: int) -> bytes:
    """Return a segment."""
    base_offset = rng.choice((0, 7, 2**40))
    builder = SegmentBuilder(bytes(16), 3, base_offset, chunk_bytes=rng.choice((1, 300)))
    offset = base_offset
    for _ in range(batches):
        data = bytearray(build_batch(some_records(rng, 2)))
        set_base_offset(data, 0, base_offset=offset, leader_epoch=0)
        offset += 2
        builder.append(FinalBatch(data, offset, 2, NOW_MS))
    if rng.random() < 0.3:
        builder.add_aborted(AbortedTransaction(5, base_offset, offset))
    return bytes(builder.seal(offset).body)


class SegmentTarget:
    """Input: a segment."""

    head_bytes = 0
    fixed_bytes = 64 * 1024
    bytes_per_byte = 64
    seconds_per_kib = 0.02

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        return [some_segment(rng, count) for count in (1, 1, 2, 3, 8) for _ in range(4)]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target: CRCs of the header, of chunks, and of the index."""
        trailer = len(data) - TRAILER.size
        if trailer < HEADER_BYTES or rng.random() < 0.05:
            return
        position, length, _, magic = TRAILER.unpack_from(data, trailer)
        if rng.random() < 0.5:
            length = min(length, trailer - HEADER_BYTES)
            position = trailer - length
        if position + length > trailer:
            return
        _UINT32.pack_into(data, HEADER_BYTES - 4, crc32c(bytes(data[: HEADER_BYTES - 4])))
        if rng.random() < 0.5:
            _repair_chunks(data, position, trailer)
        crc = crc32c(_PLACE.pack(position, length), crc32c(bytes(data[position:trailer])))
        TRAILER.pack_into(data, trailer, position, length, crc, magic)

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        try:
            index = read_segment(data)
        except (CorruptObject, UnknownVersion):
            return
        view = memoryview(data)
        offset = index.base_offset
        for chunk in index.chunks:
            assert chunk.base_offset == offset
            offset = chunk.next_offset
            try:
                region = view[chunk.position : chunk.position + chunk.length]
                run = prepare_chunk(region, chunk)
            except CorruptBatches:
                continue
            assert run.starts[-1] == chunk.length
            assert run.end_offset <= chunk.next_offset
        assert offset == index.next_offset


def _repair_chunks(data: bytearray, position: int, trailer: int) -> None:
    at = position + _FIRST_CHUNK
    while at + _CHUNK_BYTES <= trailer - 4:
        start, length = _CHUNK_PLACE.unpack_from(data, at + 16)
        crc = crc32c(bytes(data[start : start + length]))
        _UINT32.pack_into(data, at + _CHUNK_CRC, crc)
        at += _CHUNK_BYTES
