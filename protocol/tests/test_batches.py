from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from tidegate_protocol.batches import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    crc_matches,
    last_sequence,
    read_header,
    set_base_offset,
    set_log_append_time,
    walk,
)
from tidegate_protocol.batches import check_batch as check
from tidegate_protocol.compression import Codec
from tidegate_protocol.errors import InvalidBatch, InvalidReason
from tidegate_protocol.records import Record, build_batch, decode_records

RECORDS = [Record(0, 1_000, b"k", b"v"), Record(1, 3_000, None, b"w"), Record(2, 2_000, b"x", None)]
BATCH = build_batch(RECORDS, producer_id=9, producer_epoch=2, base_sequence=5)


def changed(
    position: int, form: str, value: int, *, fix_crc: bool = True, base: bytes | memoryview = BATCH
) -> memoryview:
    """Return the batch with one header field changed."""
    batch = bytearray(base)
    struct.pack_into(form, batch, position, value)
    if fix_crc:
        struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return memoryview(batch)


def refused(data: memoryview | bytes) -> InvalidReason:
    with pytest.raises(InvalidBatch) as caught:
        check(memoryview(data))
    return caught.value.reason


def test_the_header_is_read() -> None:
    header = check(memoryview(BATCH))
    assert header == read_header(b"head" + BATCH, 4)
    assert header[:4] == (0, len(BATCH) - 12, -1, 2)
    assert header[5:] == (0, 2, 1_000, 3_000, 9, 2, 5, 3)
    assert (header.size_bytes, header.last_offset, header.codec) == (len(BATCH), 2, Codec.NONE)


def test_the_attribute_bits_have_names() -> None:
    header = read_header(BATCH)
    flags = (LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON)
    for bit in flags:
        marked = header._replace(attributes=bit | Codec.ZSTD)
        found = (
            marked.is_log_append_time,
            marked.is_transactional,
            marked.is_control,
            marked.has_delete_horizon,
        )
        assert found == tuple(bit == each for each in flags)
        assert marked.codec == Codec.ZSTD


def test_transactional_and_compressed_batches_pass() -> None:
    for codec in Codec:
        batch = build_batch(RECORDS, codec=codec, attributes=TRANSACTIONAL)
        assert check(memoryview(batch)).codec == codec


@pytest.mark.parametrize("position", [21, 40, len(BATCH) - 1])
def test_a_damaged_batch_is_corrupt(position: int) -> None:
    assert refused(changed(position, ">B", 0x55, fix_crc=False)) is InvalidReason.CORRUPT


@pytest.mark.parametrize("size", [1, 11, 12, 16, 17, 60, 61, len(BATCH) - 1])
def test_a_cut_batch_is_none(size: int) -> None:
    assert refused(BATCH[:size]) is InvalidReason.INVALID_RECORD


@pytest.mark.parametrize("length", [-1, 0, 13, 14, 48])
def test_a_length_of_no_batch_is_corrupt(length: int) -> None:
    assert refused(changed(8, ">i", length)) is InvalidReason.CORRUPT
    assert refused(changed(8, ">i", length)[:60]) is InvalidReason.CORRUPT


@pytest.mark.parametrize("length", [len(BATCH) - 11, 2**31 - 1])
def test_a_length_beyond_the_data_is_a_cut_batch(length: int) -> None:
    assert refused(changed(8, ">i", length)) is InvalidReason.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    assert refused(changed(16, ">b", magic)) is InvalidReason.CORRUPT
    assert refused(changed(16, ">b", magic)[:17]) is InvalidReason.CORRUPT


INVALID = {
    "no batch": b"",
    "two batches": BATCH + BATCH,
    "magic 1": changed(16, ">b", 1),
    "magic 1, short": changed(16, ">b", 1)[:30],
    "magic 0, short": changed(16, ">b", 0)[:17],
    "base offset": changed(0, ">q", 1),
    "no records": changed(57, ">i", 0),
    "nothing counted": changed(23, ">i", -1, base=changed(57, ">i", 0)),
    "negative count": changed(57, ">i", -1),
    "count and delta": changed(57, ">i", 2),
    "delta and count": changed(23, ">i", 3),
    "control": changed(21, ">h", CONTROL),
    "codec 5": changed(21, ">h", 5),
    "no sequence": changed(53, ">i", -1),
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID.keys())
def test_a_batch_that_breaks_a_rule_is_an_invalid_record(data: memoryview | bytes) -> None:
    assert refused(data) is InvalidReason.INVALID_RECORD


def test_base_offset_and_epoch_are_set_without_touching_the_crc() -> None:
    buffer = bytearray(b"head" + BATCH + b"tail")
    set_base_offset(buffer, 4, base_offset=2**40, leader_epoch=7)
    header = read_header(buffer, 4)
    assert (header.base_offset, header.leader_epoch) == (2**40, 7)
    assert header[3:] == read_header(BATCH)[3:]
    assert crc_matches(memoryview(buffer), 4, header)
    assert buffer.startswith(b"head")
    assert buffer.endswith(b"tail")


def test_log_append_time_is_set_with_a_new_crc() -> None:
    buffer = bytearray(b"head" + BATCH + b"tail")
    view = memoryview(buffer)
    for timestamp in (5, 9_999):
        set_log_append_time(view[4:], 0, size=len(BATCH), timestamp_ms=timestamp)
    header = read_header(buffer, 4)
    assert header.is_log_append_time
    assert header.max_timestamp == 9_999
    assert crc_matches(view, 4, header)
    assert not crc_matches(view, 4, read_header(BATCH))
    records = decode_records(view[4:-4], max_decompressed_bytes=1000)
    assert [record.timestamp for record in records] == [9_999] * 3


def test_walk_finds_every_batch() -> None:
    second = build_batch([Record(3, 5, None, b"z")])
    found = list(walk(memoryview(BATCH + second)))
    assert [position for position, _ in found] == [0, len(BATCH)]
    assert [header.base_offset for _, header in found] == [0, 3]
    assert list(walk(memoryview(b""))) == []


@pytest.mark.parametrize(
    "data",
    [BATCH[:-1], BATCH + b"x", changed(8, ">i", 0), changed(8, ">i", -1), changed(16, ">b", 1)],
)
def test_walk_refuses_batches_that_do_not_fit(data: memoryview | bytes) -> None:
    with pytest.raises(InvalidBatch) as caught:
        list(walk(memoryview(data)))
    assert caught.value.reason is InvalidReason.CORRUPT


@pytest.mark.parametrize(
    ("base", "count", "last"),
    [
        (0, 1, 0),
        (5, 3, 7),
        (2**31 - 1, 1, 2**31 - 1),
        (2**31 - 1, 2, 0),
        (2**31 - 2, 5, 2),
        (-1, 3, -1),
    ],
)
def test_sequences_wrap_to_zero(base: int, count: int, last: int) -> None:
    assert last_sequence(base, count) == last
