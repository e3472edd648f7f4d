"""Targets: record batches as Produce checks them, the four codecs, the records inside."""

from __future__ import annotations

from random import Random
from typing import Final

from crc32c import crc32c

from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.topic_settings import TopicSettings, compile_topic_settings
from tidegate_gateway.produce.record_checks import looked_at
from tidegate_gateway.produce.refusals import BatchRefused
from tidegate_pipeline.tasks.record_spans import Spans, record_spans
from tidegate_protocol.batch_walk import walk_batch
from tidegate_protocol.batches import (
    CRC_POSITION,
    CRC_START,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    with_header,
)
from tidegate_protocol.compression import Codec, compress, decompress
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.records import (
    MAX_HEADERS,
    Record,
    build_batch,
    check_batch,
    decode_records,
    last_sequence,
    read_header,
    rebuild_batch,
    set_log_append_time,
    walk,
)

NOW_MS: Final = 1_700_000_000_000
MAX_BYTES: Final = 1 << 20
"""The limit of a batch's decompressed bytes here."""
BOMB_BYTES: Final = 2 << 20
_CONFIGS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"cleanup.policy": "compact"},
    {"message.timestamp.before.max.ms": "1000"},
    {"compression.type": "gzip"},
    {"compression.type": "snappy"},
    {"compression.type": "lz4"},
    {"compression.type": "zstd"},
    {"compression.type": "uncompressed"},
)


def some_records(rng: Random, count: int) -> list[Record]:
    """Return records of all shapes."""
    return [
        Record(
            offset,
            NOW_MS + rng.choice((0, 0, 1, -1, 10**6)),
            rng.choice((None, b"", b"key", rng.randbytes(10))),
            rng.choice((None, b"", b"value" * 20, rng.randbytes(30))),
            rng.choice(((), (("h", None),), (("", b""), ("\udcff", b"x" * 20)))),
        )
        for offset in range(count)
    ]


def some_batches(rng: Random) -> list[bytes]:
    """Return batches of all codecs and attributes, and bombs."""
    found: list[bytes] = []
    for codec in Codec:
        found += [build_batch(some_records(rng, count), codec=codec) for count in (1, 3, 40)]
        found.append(build_batch(some_records(rng, 2), codec=codec, attributes=rng.choice((8, 32))))
        found.append(
            build_batch(
                some_records(rng, 2), codec=codec, producer_id=7, producer_epoch=0, base_sequence=5
            )
        )
        found.append(build_batch([Record(0, NOW_MS, None, bytes(BOMB_BYTES // 4))], codec=codec))
        if codec != Codec.NONE:
            found.append(build_batch([Record(0, NOW_MS, None, bytes(BOMB_BYTES))], codec=codec))
    return [each for each in found if len(each) < 1 << 15]


def repair_batch(data: bytearray, start: int, *, length: bool) -> None:
    """Give the batch from start to the end its CRC, and on request its length."""
    if len(data) - start < HEADER_BYTES:
        return
    if length:
        size = len(data) - start - LENGTH_OVERHEAD
        data[start + 8 : start + 12] = size.to_bytes(4, "big")
    crc = crc32c(bytes(data[start + CRC_START :]))
    data[start + CRC_POSITION : start + CRC_START] = crc.to_bytes(4, "big")


class BatchesTarget:
    """Input: index of the topic settings 1 byte, then the batch of one partition."""

    head_bytes = 1
    # The decompressed records, twice (out and bytes(out)), the records, and a rebuilt batch.
    fixed_bytes = 12 * MAX_BYTES
    bytes_per_byte = 512
    seconds_per_kib = 0.3

    def __init__(self) -> None:
        layers = BrokerLayers()
        self._settings = [compile_topic_settings(each, layers) for each in _CONFIGS]

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        batches = some_batches(rng)
        kinds = range(len(_CONFIGS))
        return [bytes((rng.choice(kinds),)) + each for each in batches for _ in range(2)]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""
        chance = rng.random()
        if chance < 0.9:
            if chance < 0.3 and len(data) > HEADER_BYTES:
                data[1:9] = bytes(8)  # the base offset
                data[17] = 2  # the magic
            repair_batch(data, 1, length=chance < 0.8)

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        if not data:
            return
        batch = memoryview(data)[1:]
        _walk(batch)
        try:
            header = check_batch(batch)
        except InvalidBatch:
            _decode(batch)
            return
        assert header.size_bytes == len(batch)
        assert -1 <= last_sequence(header.base_sequence, header.record_count) < 2**31 or (
            header.base_sequence < -1
        )
        records = _decode(batch)
        _check(self._settings[data[0] % len(_CONFIGS)], batch, records)
        _append_time(batch)


def _walk(batch: memoryview) -> None:
    try:
        total = sum(header.size_bytes for _, header in walk(batch))
    except InvalidBatch:
        return
    assert total == len(batch)


def _decode(batch: memoryview) -> list[Record] | None:
    try:
        return list(decode_records(batch, max_decompressed_bytes=MAX_BYTES))
    except InvalidBatch:
        return None


def _check(settings: TopicSettings, batch: memoryview, records: list[Record] | None) -> None:
    try:
        looked = looked_at(settings, batch, read_header(batch), NOW_MS, MAX_BYTES, _never)
    except BatchRefused:
        return
    stored = looked.batch or with_header(batch.toreadonly(), looked.header)[0]
    # The topic stores a batch that a producer could have sent, with the same records.
    assert check_batch(memoryview(stored)).record_count == len(records or ())
    # Without LogAppendTime, records keep their own times.
    if not read_header(batch).is_log_append_time:
        assert _decode(memoryview(stored)) == records
    if not settings.timestamp_type_is_append:
        times = [each.timestamp for each in _decode(memoryview(stored)) or ()]
        assert looked.header.max_timestamp == max(-1, *times)


def _never() -> bool:
    return False


def _append_time(batch: memoryview) -> None:
    stored = bytearray(batch)
    set_log_append_time(stored, 0, size=len(stored), timestamp_ms=NOW_MS)
    header = read_header(stored)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW_MS
    assert header.crc == crc32c(stored[CRC_START:])


class RecordsTarget:
    """Input: an uncompressed batch with damaged records and a header that fits them."""

    head_bytes = 0
    fixed_bytes = 256 * 1024
    bytes_per_byte = 512
    seconds_per_kib = 0.05

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        return [build_batch(some_records(rng, 1 + number % 20)) for number in range(100)]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""
        if len(data) >= HEADER_BYTES and rng.random() < 0.95:
            data[16] = 2
            data[21:23] = b"\0\0" if rng.random() < 0.9 else b"\0\x08"
            repair_batch(data, 0, length=True)

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        if len(data) < HEADER_BYTES:
            return
        header = read_header(data)
        records = _decode(memoryview(data))
        _agree(memoryview(data), header, records)
        if records is None:
            return
        assert len(records) == header.record_count
        if header.is_log_append_time or header.base_offset + header.last_offset_delta >= 2**63:
            return
        again = rebuild_batch(header, records, codec=Codec.NONE)
        assert _decode(memoryview(again)) == records


def _agree(batch: memoryview, header: BatchHeader, records: list[Record] | None) -> None:
    """Check that walk, decoder and compaction accept and refuse the same batches.

    The decoder also looks at the offsets that the header has.  It takes deltas that do not rise.
    """
    if header.codec != Codec.NONE or header.size_bytes != len(batch) or header.magic != MAGIC:
        return
    payload = bytes(batch[HEADER_BYTES:])
    spans = _spans(payload, header.record_count)
    try:
        found = walk_batch(batch, header, max_bytes=MAX_BYTES)
    except InvalidBatch:
        deltas = [each.offset for each in records or ()]
        assert records is None or deltas != sorted(set(deltas)) or header.is_log_append_time
        return
    assert spans is not None
    assert spans.offset_deltas == sorted(set(spans.offset_deltas))
    if records is None:
        assert spans.offset_deltas[-1] > header.last_offset_delta or len(batch) > MAX_HEADERS
        return
    base = header.base_offset
    assert [base + each for each in spans.offset_deltas] == [each.offset for each in records]
    assert spans.keys == [each.key for each in records]
    assert spans.nulls == [each.value is None for each in records]
    assert found.keyless == spans.keys.count(None)
    if not header.is_log_append_time:
        assert found.max_timestamp == max([-1, *(each.timestamp for each in records)])


def _spans(payload: bytes, count: int) -> Spans | None:
    """Return the spans that compaction reads from records that were not checked before."""
    try:
        return record_spans(payload, count)
    except InvalidBatch:
        return None


class CompressionTarget:
    """Input: codec 1 byte, compressed data."""

    head_bytes = 1
    fixed_bytes = 4 * MAX_BYTES
    bytes_per_byte = 16
    seconds_per_kib = 0.1

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        texts = (b"", b"a", b"text " * 100, rng.randbytes(5000), bytes(70_000), bytes(BOMB_BYTES))
        found: list[bytes] = []
        for codec in Codec:
            packed = [compress(text, codec) for text in texts]
            packed.append(packed[1] * 3)  # several members, frames or streams
            found += [bytes((codec,)) + each for each in packed if len(each) < 1 << 15]
        found.append(bytes((Codec.SNAPPY,)) + compress(b"text " * 50, Codec.SNAPPY)[20:])
        return found

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        if not data:
            return
        codec = data[0] % (max(Codec) + 2)
        try:
            text = bytes(decompress(memoryview(data)[1:], codec, max_bytes=MAX_BYTES))
        except InvalidBatch:
            return
        assert codec == Codec.NONE or len(text) <= MAX_BYTES
        if len(text) < 4096:
            assert decompress(compress(text, codec), codec, max_bytes=MAX_BYTES) == text
