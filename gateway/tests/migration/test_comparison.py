"""The comparison of a copy with its source finds and names every kind of difference."""

from __future__ import annotations

import re

import pytest

from tests.worlds.wire_client import NOW_MS
from tidegate_gateway.migration.mirror import comparison
from tidegate_gateway.migration.mirror.comparison import COPY, SOURCE, Comparison
from tidegate_protocol import batches as pb
from tidegate_protocol.compression import Codec
from tidegate_protocol.control_batches import control_batch
from tidegate_protocol.records import Record, build_batch


def stored(base: int, *records: Record, epoch: int = 0, codec: int = Codec.NONE) -> bytes:
    data = bytearray(build_batch(records or [record(0)], codec=codec))
    pb.set_base_offset(memoryview(data), 0, base_offset=base, leader_epoch=epoch)
    return bytes(data)


def record(place: int, value: bytes = b"v", **more: object) -> Record:
    return Record(place, NOW_MS, b"k", value, **more)  # type: ignore[arg-type]


def compared(source: bytes, copy: bytes, end: int, *, by_record: bool = False) -> Comparison:
    """Compare source and copy; each fetch of one of them returns one batch."""
    sides = (source, copy)
    comparison = Comparison(0, end, by_record)
    for _ in range(100):
        side = comparison.side
        if side is None:
            return comparison
        comparison.take(side, memoryview(one_from(sides[side], comparison.position(side))))
    raise AssertionError("the comparison does not end")


def one_from(data: bytes, offset: int) -> bytes:
    whole = memoryview(data)
    for at, header in pb.walk(whole):
        if header.last_offset >= offset:
            return bytes(whole[at : at + header.size_bytes])
    return b""


SOURCE_BYTES = stored(0) + stored(1, record(0), record(1)) + stored(5)


@pytest.mark.parametrize(("by_record", "items"), [(False, 3), (True, 4)])
def test_equal_copies(by_record: bool, items: int) -> None:
    found = compared(SOURCE_BYTES, SOURCE_BYTES, 6, by_record=by_record)
    assert (found.difference, found.items) == ("", items)


def flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


HEADED = stored(1, record(0, headers=(("h", b"x"),)), record(1))


@pytest.mark.parametrize(
    ("copy", "by_record", "difference"),
    [
        (flipped(SOURCE_BYTES, len(SOURCE_BYTES) - 1), False, "offset 5: the copy's .* wrong CRC"),
        (stored(0) + stored(5), False, "offset 1: the copy lacks the batch"),
        (stored(0) + stored(5), True, "offset 1: the copy lacks the record"),
        (stored(0) + stored(1) + stored(5), False, "offset 1: last_offset, crc, size differ"),
        (stored(0) + stored(1) + stored(5), True, "offset 2: the copy lacks the record"),
        (SOURCE_BYTES[: -len(stored(5))], False, "offset 5: the copy lacks the batch"),
        (stored(0) + HEADED + stored(5), False, "offset 1: crc, size differ"),
        (stored(0) + HEADED + stored(5), True, "offset 1: headers differ"),
        (stored(0, record(0, b"w")) + SOURCE_BYTES[len(stored(0)) :], True, "offset 0: value"),
        (stored(0, epoch=4) + SOURCE_BYTES[len(stored(0)) :], False, "offset 0: leader_epoch"),
    ],
)
def test_differences_are_named(copy: bytes, by_record: bool, difference: str) -> None:
    found = compared(SOURCE_BYTES, copy, 6, by_record=by_record)
    assert re.match(difference, found.difference), found.difference


def test_a_source_that_lacks_a_batch_of_the_copy() -> None:
    found = compared(stored(0) + stored(5), SOURCE_BYTES, 6)
    assert found.difference == "offset 1: the source lacks the batch"


def test_records_are_equal_however_they_are_packed() -> None:
    packed = stored(0, record(0), record(1), record(2), codec=Codec.GZIP)
    apart = stored(0) + stored(1) + stored(2)
    assert compared(packed, apart, 3, by_record=True).difference == ""
    assert compared(packed, apart, 3).difference != ""


def test_empty_batches_and_markers_hold_no_record() -> None:
    marker = control_batch(
        base_offset=1,
        leader_epoch=0,
        timestamp_ms=9,
        producer_id=7,
        producer_epoch=0,
        committed=True,
    )
    empty = pb.empty_batch(2, 5, 0)
    source, copy = stored(0) + marker + stored(5), stored(0) + marker + empty + stored(5)
    assert compared(source, copy, 6).items == 3
    assert compared(source, copy, 6, by_record=True).items == 2


def test_what_lies_beyond_the_end_is_left_out() -> None:
    comparison = Comparison(0, 1)
    comparison.take(SOURCE, memoryview(SOURCE_BYTES))
    comparison.take(COPY, memoryview(stored(0)))
    assert (comparison.side, comparison.difference, comparison.items) == (None, "", 1)


def test_records_of_a_batch_with_very_many_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "MAX_RECORDS", 1)
    found = compared(SOURCE_BYTES, SOURCE_BYTES, 6, by_record=True)
    assert found.difference == "offset 1: a batch of 2 records is too large to compare its records"
    assert compared(SOURCE_BYTES, SOURCE_BYTES, 6).difference == ""
