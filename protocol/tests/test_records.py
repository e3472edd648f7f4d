from __future__ import annotations

import struct
import warnings
from contextlib import suppress
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_protocol.batches import DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from tidegate_protocol.compression import Codec
from tidegate_protocol.errors import InvalidBatch, InvalidReason
from tidegate_protocol.records import (
    Record,
    build_batch,
    check_batch,
    decode_records,
    read_header,
    rebuild_batch,
)

with warnings.catch_warnings():
    # Its import uses a deprecated function of importlib.resources.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch as PythonBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

QUICK = settings(max_examples=40, deadline=None, derandomize=True, database=None)
LIMIT = 1 << 20

RECORDS = [
    Record(0, 1_000, b"key", b"value", [("h", b"1"), ("h", None), ("ä", b"")]),
    Record(1, 900, None, b"x" * 70_000),
    Record(2, 2_000, b"", None),
    *(Record(offset, 1_000 + offset, b"%d" % offset, b"") for offset in range(3, 40)),
]
each_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())


def decoded(batch: bytes, limit: int = LIMIT) -> list[Record]:
    return list(decode_records(batch, max_decompressed_bytes=limit))


def foreign(builder_type: Any, codec: int) -> bytes:
    """Build RECORDS with another project's builder."""
    builder = builder_type(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=7,
        producer_epoch=1,
        base_sequence=0,
        batch_size=1 << 20,
    )
    for record in RECORDS:
        headers = list(record.headers)
        builder.append(record.offset, record.timestamp, record.key, record.value, headers)
    return bytes(builder.build())


@each_codec
def test_batches_of_aiokafka_are_read(codec: Codec) -> None:
    batch = foreign(DefaultRecordBatchBuilder, codec)
    header = check_batch(memoryview(batch))
    assert (header.codec, header.producer_id, header.record_count) == (codec, 7, len(RECORDS))
    assert decoded(batch) == RECORDS


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_batches_of_kafka_python_are_read(codec: Codec) -> None:
    batch = foreign(PythonBuilder, codec)
    check_batch(memoryview(batch))
    assert decoded(batch) == RECORDS


@each_codec
def test_our_batches_are_read_by_aiokafka(codec: Codec) -> None:
    theirs = DefaultRecordBatch(bytearray(build_batch(RECORDS, codec=codec)))
    assert theirs.validate_crc()
    assert [
        Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
        for each in theirs
    ] == [record._replace(headers=tuple(record.headers)) for record in RECORDS]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_our_batches_are_read_by_kafka_python(codec: Codec) -> None:
    theirs = PythonBatch(build_batch(RECORDS, codec=codec))
    assert theirs.validate_crc()
    assert [each.value for each in theirs] == [record.value for record in RECORDS]


@each_codec
def test_our_batches_are_read_by_us(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    check_batch(memoryview(batch))
    assert decoded(batch) == RECORDS


@QUICK
@given(
    st.lists(
        st.tuples(
            st.integers(-1, 2**50),
            st.none() | st.binary(max_size=20),
            st.none() | st.binary(max_size=200),
            st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))).map(tuple),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(Codec),
)
def test_built_batches_are_decoded(parts: list[Any], codec: Codec) -> None:
    records = [Record(offset, *part) for offset, part in enumerate(parts)]
    found = decoded(build_batch(records, codec=codec))
    assert [record._replace(headers=tuple(record.headers)) for record in found] == records


def test_header_keys_that_are_not_text_survive() -> None:
    batch = bytearray(build_batch([Record(0, 0, None, None, [("key", b"v")])]))
    batch[batch.index(b"key")] = 0xFF
    records = decoded(bytes(batch))
    assert b"\xffey" in build_batch(records)


def test_a_rebuilt_batch_keeps_its_header() -> None:
    flags = TRANSACTIONAL | LOG_APPEND_TIME
    old = build_batch(
        [record._replace(offset=record.offset + 100) for record in RECORDS],
        codec=Codec.GZIP,
        attributes=flags,
        producer_id=5,
        producer_epoch=3,
        base_sequence=77,
    )
    kept = decoded(old)[5:10]
    new = rebuild_batch(read_header(old), kept, codec=Codec.ZSTD)
    before, after = read_header(old), read_header(new)
    assert after.attributes == flags | Codec.ZSTD
    assert (after.base_offset, after.last_offset_delta) == (100, len(RECORDS) - 1)
    assert after[7:12] == before[7:12]
    assert after.record_count == 5
    assert [record.offset for record in decoded(new)] == [105, 106, 107, 108, 109]


def test_a_delete_horizon_keeps_the_time_stamps() -> None:
    header = read_header(build_batch(RECORDS))
    header = header._replace(attributes=DELETE_HORIZON, base_timestamp=5_000)
    assert decoded(rebuild_batch(header, RECORDS, codec=Codec.LZ4)) == RECORDS


@pytest.mark.parametrize(
    ("position", "form", "value"),
    [
        (57, ">i", -1),
        (57, ">i", 2**31 - 1),
        (57, ">i", len(RECORDS) + 1),
        (57, ">i", len(RECORDS) - 1),
        (23, ">i", len(RECORDS) - 2),
        (27, ">q", 2**63 - 1),
    ],
)
def test_a_header_that_lies_about_its_records_is_refused(
    position: int, form: str, value: int
) -> None:
    batch = bytearray(build_batch(RECORDS))
    struct.pack_into(form, batch, position, value)
    with pytest.raises(InvalidBatch) as caught:
        decoded(bytes(batch))
    assert caught.value.reason is InvalidReason.INVALID_RECORD


def test_hostile_records_are_refused_or_read() -> None:
    small = build_batch([RECORDS[0], RECORDS[2]._replace(offset=1)])
    for position in range(61, len(small)):
        for bad in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            batch = bytearray(small)
            batch[position] = bad
            with suppress(InvalidBatch):
                decoded(bytes(batch))


@each_codec
def test_damaged_payloads_are_refused_or_read(codec: Codec) -> None:
    good = build_batch(RECORDS[2:6], codec=codec)
    for position in range(61, len(good)):
        for bad in (0x00, 0x7F, 0xFF):
            batch = bytearray(good)
            batch[position] = bad
            with suppress(InvalidBatch):
                decoded(bytes(batch))


@each_codec
def test_cut_payloads_are_refused(codec: Codec) -> None:
    good = build_batch(RECORDS, codec=codec)
    for size in range(61, len(good), max(1, (len(good) - 61) // 50)):
        batch = bytearray(good[:size])
        struct.pack_into(">i", batch, 8, size - 12)
        with pytest.raises(InvalidBatch):
            decoded(bytes(batch))


def raw_batch(payload: bytes, count: int) -> bytes:
    """Return a batch with the payload as its records, even if malformed."""
    batch = bytearray(build_batch([Record(0, 0, None, None)])[:61] + payload)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, count)
    return bytes(batch)


# Length 7, attributes, time stamp delta, offset delta, key null, value of one byte, no headers.
GOOD = bytes.fromhex("0e 00 00 00 01 02 61 00")


def test_a_record_has_its_known_bytes() -> None:
    assert build_batch([Record(0, 5, None, b"a")])[61:] == GOOD
    assert decoded(raw_batch(GOOD, 1)) == [Record(0, 0, None, b"a")]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        ("", -1),
        ("10 00 00 00 01 02 61 00", 1),
        ("10 00 00 00 01 02 61 00 00", 1),
        ("0c 00 00 00 01 02 61 00", 1),
        ("0d 00 00 00 01 02 61 00", 1),
        ("0e 00 00 00 03 02 61 00", 1),
        ("0e 00 00 00 01 02 61 01", 1),
        ("0e 00 00 00 01 02 61 fe01", 1),
        ("12 00 00 00 01 02 61 02 01 00", 1),
        ("18 00 00 00 01 02 61 02 00 06 61", 1),
        ("0e 00 00 01 01 02 61 00", 1),
        ("0e 00 00 02 01 02 61 00", 1),
        ("0e 00 00 00 01 02 61 00 00", 1),
        ("0e 00 00 00 01 02 61 00", 2),
    ],
)
def test_a_lying_record_is_never_handed_out(payload: str, count: int) -> None:
    records = decode_records(raw_batch(bytes.fromhex(payload), count), max_decompressed_bytes=99)
    begun: list[Record] = []
    with pytest.raises(InvalidBatch) as caught:
        begun.extend(records)
    assert all(record[2:] == (None, b"a", ()) for record in begun)
    assert caught.value.reason is InvalidReason.INVALID_RECORD


def test_a_batch_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidBatch, match="exactly one batch"):
        decoded(build_batch(RECORDS) + b"x")
