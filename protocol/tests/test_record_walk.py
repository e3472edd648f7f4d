"""The walk over records: the records that it accepts, its notes, and that its forms agree."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_protocol import record_walk
from tidegate_protocol.batches import HEADER_BYTES
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.primitives import write_varint
from tidegate_protocol.records import Record, build_batch

EACH = settings(max_examples=300, deadline=None, derandomize=True, database=None)
BASE_MS = 1_700_000_000_000
MAX_INT64 = 2**63 - 1

RECORDS = [
    Record(0, BASE_MS, b"key", b"value", [("h", b"1"), ("h", None), ("ä", b"")]),
    Record(1, BASE_MS - 500, None, b"x" * 300),
    Record(2, BASE_MS + 70_000, b"", None),
    *(Record(offset, BASE_MS + offset, b"%d" % offset, b"") for offset in range(3, 80)),
    Record(80, BASE_MS, b"k" * 9_000, b"v" * 20_000, [("name" * 40, b"h" * 200)] * 3),
]


def uncompiled() -> Any:
    """Return the module as plain Python, even if the compiled form is installed."""
    path = record_walk.__file__.split("record_walk")[0] + "record_walk.py"
    spec = importlib.util.spec_from_file_location("tidegate_protocol._plain_walk", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLAIN = uncompiled().RecordWalk
FORMS = [record_walk.RecordWalk, PLAIN]
each_form = pytest.mark.parametrize("form", FORMS, ids=["installed", "uncompiled"])


class Noted(NamedTuple):
    """The notes of a walk; after an error there are no values."""

    error: bool
    values: tuple[int, ...] = ()


def pieces(walk: Any, payload: bytes, size: int) -> None:
    """Feed a payload to a walk in pieces of a size; 0: in one piece."""
    size = size or len(payload) or 1
    for start in range(0, len(payload), size):
        walk.feed(memoryview(payload)[start : start + size])
    walk.finish()


def walked(form: Any, payload: bytes, count: int, size: int = 0, base_ms: int = BASE_MS) -> Noted:
    """Walk over a payload in pieces of a size; 0: in one piece."""
    walk = form(count, base_ms)
    try:
        pieces(walk, payload, size)
    except InvalidBatch:
        return Noted(True)
    times = (walk.max_timestamp, walk.max_index, walk.oldest)
    return Noted(False, (walk.walked, *times, walk.keyless, walk.next_offset))


def payload_of(records: list[Record]) -> bytes:
    return build_batch(records)[HEADER_BYTES:]


def record(*numbers: int, attributes: int = 0, rest: bytes = b"") -> bytes:
    """Return a record of attributes and these varints, with the right length."""
    body = bytearray([attributes])
    for number in numbers:
        write_varint(body, number)
    body += rest
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out + body)


@each_form
def test_the_walk_notes_the_largest_and_the_oldest_time_keys_and_numbering(form: Any) -> None:
    noted = walked(form, payload_of(RECORDS), len(RECORDS))
    assert noted == Noted(False, (81, BASE_MS + 70_000, 2, BASE_MS - 500, 1, 2 * 81))


@each_form
def test_records_without_time_stamps_have_no_largest_and_no_oldest_one(form: Any) -> None:
    payload = payload_of([Record(0, -1, None, b""), Record(1, -1, None, b"")])
    noted = walked(form, payload, 2, base_ms=-1)
    assert noted == Noted(False, (2, -1, -1, record_walk.NEVER, 2, 4))


@each_form
def test_offsets_may_leave_gaps_which_shows(form: Any) -> None:
    payload = record(0, 0, -1, -1, 0) + record(0, 5, -1, -1, 0)
    assert walked(form, payload, 2).values[-1] == 2 * 6


@each_form
@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_walk_finds_the_first_and_the_largest_time_above_from_a_delta_on(
    form: Any, size: int
) -> None:
    times = [(0, 5), (1, 30), (4, 20), (6, 30), (7, 40), (9, 40), (10, 1)]
    payload = b"".join(record(time, delta, -1, -1, 0) for delta, time in times)

    def found(above: int, least: int) -> tuple[int, ...]:
        walk = form(len(times), 100, above, least)
        step = size or len(payload)
        for start in range(0, len(payload), step):
            walk.feed(memoryview(payload)[start : start + step])
        walk.finish()
        first = walk.first_delta, walk.first_timestamp
        return (*first, walk.max_delta, walk.max_timestamp)

    assert found(-1, 0) == (0, 105, 7, 140)
    assert found(105, 0) == (1, 130, 7, 140)
    assert found(119, 2) == (4, 120, 7, 140)
    assert found(120, 2) == (6, 130, 7, 140)
    assert found(-1, 8) == (9, 140, 9, 140)
    assert found(140, 0) == (-1, -1, -1, 140)
    assert found(-1, 11) == (-1, -1, -1, -1)


MALFORMED = {
    "a cut record": record(0, 0, -1, -1, 0)[:-1],
    "no byte": b"",
    "one record too many": record(0, 0, -1, -1, 0) + record(0, 1, -1, -1, 0),
    "bytes after the last record": record(0, 0, -1, -1, 0) + b"\0",
    "a negative length": b"\1",
    "a length beyond the data": b"\x7e" + record(0, 0, -1, -1, 0),
    "a record without fields": b"\0",
    "a length that is too small": b"\x0a" + record(0, 0, -1, -1, 0)[1:],
    "a length that is too large": b"\x0e" + record(0, 0, -1, -1, 0)[1:] + b"\0",
    "a null header key": record(0, 0, -1, -1, 1, -1, -1),
    "a negative number of headers": record(0, 0, -1, -1, -1),
    "more headers than bytes": record(0, 0, -1, -1, 1 << 20),
    "a header key beyond the record": record(0, 0, -1, -1, 1, 100, -1),
    "a header key of 33 bits": b"\x16\0\0\0\1\1\2" + b"\x80" * 4 + b"\x10\1",
    "a header that begins beyond the record": record(0, 0, -1, -1, 2, 0, 20) + bytes(40),
    "a header value of size -2": record(0, 0, -1, -1, 1, 0, -2),
    "a key of size -2": record(0, 0, -2, -1, 0),
    "a key beyond the record": record(0, 0, 1 << 30, -1, 0, rest=bytes(20)),
    "a key of 2 GiB": record(0, 0, 2**31 - 1, -1, 0, rest=bytes(20)),
    "a value of size -3": record(0, 0, -1, -3, 0),
    "a value beyond the record": record(0, 0, -1, 7, 0, rest=b"abc"),
    "a negative offset delta": record(0, -1, -1, -1, 0),
    "a number of 11 bytes": b"\x20\0" + b"\xff" * 10 + b"\1" + bytes(3),
    "a length that never ends": b"\xff" * 30,
    # Numbers of 32 bits in 6 bytes, which Java's clients cannot read.
    "a length of 6 bytes": b"\x8c" + b"\x80" * 4 + b"\0" + record(0, 0, -1, -1, 0)[1:],
    "an offset delta of 6 bytes": b"\x16\0\0" + b"\x80" * 5 + b"\0\1\1\0",
    "a key size of 6 bytes": b"\x16\0\0\0" + b"\x80" * 5 + b"\0\1\0",
    "a value size of 6 bytes": b"\x16\0\0\0\1" + b"\x80" * 5 + b"\0\0",
    "a header count of 6 bytes": b"\x16\0\0\0\1\1" + b"\x80" * 5 + b"\0",
    "a header key size of 6 bytes": b"\x1a\0\0\0\1\1\2" + b"\x80" * 5 + b"\0\1",
    "a header value size of 6 bytes": b"\x1a\0\0\0\1\1\2\0" + b"\x80" * 5 + b"\0",
}


def said(form: Any, payload: bytes, size: int) -> str:
    """Return the error of a malformed record, fed in pieces of a size; 0: in one piece."""
    with pytest.raises(InvalidBatch) as caught:
        pieces(form(1, BASE_MS), payload, size)
    return str(caught.value)


@each_form
@pytest.mark.parametrize("size", [0, 1])
def test_numbers_may_be_longer_than_they_need(form: Any, size: int) -> None:
    payload = b"\x1c\0" + b"\x80" * 4 + b"\0" + b"\x80" * 4 + b"\0\1\1\0"
    assert walked(form, payload, 1, size) == Noted(False, (1, BASE_MS, 0, BASE_MS, 1, 2))


@each_form
@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_record_is_refused(form: Any, payload: bytes, size: int) -> None:
    assert walked(form, payload, 1, size) == Noted(True)


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED.keys())
def test_both_forms_say_the_same_of_a_malformed_record(payload: bytes, size: int) -> None:
    assert said(record_walk.RecordWalk, payload, size) == said(PLAIN, payload, size)


@each_form
@pytest.mark.parametrize("size", [0, 1])
def test_an_offset_delta_that_does_not_rise_is_refused(form: Any, size: int) -> None:
    payload = record(0, 1, -1, -1, 0) + record(0, 1, -1, -1, 0)
    assert walked(form, payload, 2, size) == Noted(True)


@each_form
@pytest.mark.parametrize(
    ("base_ms", "delta", "expected"),
    [
        (MAX_INT64, 0, MAX_INT64),
        (MAX_INT64, 1, None),
        (-(2**63), -1, None),
        (-(2**63), 2**63 - 1, -1),
        (0, MAX_INT64, MAX_INT64),
        (1, MAX_INT64, None),
        (2**62, -(2**62), 0),
        (-1, -(2**63), None),
        (0, -(2**63), -(2**63)),
    ],
)
@pytest.mark.parametrize("size", [0, 1])
def test_a_time_stamp_has_64_bits(
    form: Any, base_ms: int, delta: int, expected: int | None, size: int
) -> None:
    noted = walked(form, record(delta, 0, -1, -1, 0), 1, size, base_ms)
    assert noted.error is (expected is None)
    if expected is not None:
        assert noted.values[1] == max(expected, -1)


@each_form
def test_a_header_does_not_count_for_more_than_its_bytes(form: Any) -> None:
    rest = bytearray()
    for _ in range(5_000):
        rest += b"\0\1"
    payload = record(0, 0, -1, -1, 5_000, rest=bytes(rest))
    assert not walked(form, payload, 1).error
    assert not walked(form, payload, 1, 7).error
    assert walked(form, record(0, 0, -1, -1, 5_001, rest=bytes(rest)), 1).error


def mutated(seed: int, payload: bytes) -> bytes:
    """Return a payload with a few changed, removed or added bytes, most near the begin."""
    draw = random.Random(seed)
    data = bytearray(payload)
    for _ in range(draw.randrange(4)):
        at = draw.randrange(min(len(data), draw.choice((20, 200, len(data)))))
        change = draw.randrange(3)
        if change == 0:
            data[at] = draw.choice((0, 1, 2, 127, 128, 254, 255, draw.randrange(256)))
        elif change == 1:
            del data[at]
        else:
            data.insert(at, draw.randrange(256))
    return bytes(data)


@pytest.mark.slow
@EACH
@given(seed=st.integers(0, 1 << 32), size=st.integers(1, 400))
def test_all_forms_agree_however_the_bytes_come(seed: int, size: int) -> None:
    payload = mutated(seed, payload_of(RECORDS))
    expected = walked(PLAIN, payload, len(RECORDS))
    for form in FORMS:
        assert walked(form, payload, len(RECORDS)) == expected
        assert walked(form, payload, len(RECORDS), size) == expected
        assert walked(form, payload, len(RECORDS), 1) == expected


def feed_all(form: Any, pieces: Callable[[int], bytes], times: int) -> Any:
    walk = form(1, BASE_MS)
    for index in range(times):
        walk.feed(pieces(index))
    return walk


@each_form
def test_a_record_larger_than_memory_should_hold_is_walked_piece_by_piece(form: Any) -> None:
    size = 64 << 20
    head = bytearray([0])
    for number in (0, 0, -1, size):
        write_varint(head, number)
    length = bytearray()
    write_varint(length, len(head) + size + 1)
    piece = bytes(1 << 20)
    walk = feed_all(form, lambda index: piece if index else bytes(length + head), 65)
    walk.feed(b"\0")
    walk.finish()
    assert walk.walked == 1


def test_the_compiled_form_serves_where_it_was_built() -> None:
    assert record_walk.IS_COMPILED is not record_walk.__file__.endswith(".py")
    assert not uncompiled().IS_COMPILED
