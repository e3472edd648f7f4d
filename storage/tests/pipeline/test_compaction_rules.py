"""The records that compaction keeps, compared with the codec of whole records and with a model."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_pipeline.tasks.compaction import (
    ENTRY_BYTES,
    AbortedSet,
    Cleaner,
    LatestOffsets,
    Removed,
)
from tidegate_pipeline.tasks.record_spans import record_spans, timestamp_delta
from tidegate_protocol.batches import (
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    with_header,
)
from tidegate_protocol.compression import Codec
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.records import (
    Record,
    build_batch,
    crc_matches,
    decode_records,
    read_header,
    rebuild_batch,
)

CODECS = list(Codec)
LIMIT = 1 << 24


def records_of(batch: bytes | memoryview) -> list[Record]:
    return list(decode_records(batch, max_decompressed_bytes=LIMIT))


def is_whole(batch: memoryview) -> bool:
    return crc_matches(batch, 0, read_header(batch))


def learned(*batches: bytes) -> LatestOffsets:
    latest = LatestOffsets(0)
    for batch in batches:
        latest.add(memoryview(batch), AbortedSet())
    return latest


def test_remembered_batches_do_not_change_the_result() -> None:
    batches = [
        build_batch(
            [Record(first + at, 5, b"%d" % (at * number % 7), b"v") for at in range(10)],
            codec=CODECS[number % len(CODECS)],
        )
        for number, first in enumerate(range(0, 100, 10))
    ]
    found: list[list[bytes | None]] = []
    for remembered_bytes in (0, 4_000, 1 << 20):
        latest = LatestOffsets(0, remembered_bytes=remembered_bytes)
        for batch in batches:
            latest.add(memoryview(batch), AbortedSet())
        left = [compacted(batch, latest)[0] for batch in batches]
        found.append([None if each is None else bytes(each) for each in left])
    assert found[0] == found[1] == found[2]
    assert None in found[0]
    assert any(
        left is not None and left != batch for left, batch in zip(found[0], batches, strict=True)
    )


def compacted(
    batch: bytes, latest: LatestOffsets, tombstones_below: int = 0, *, is_last: bool = False
) -> tuple[memoryview | None, Removed]:
    cleaner = Cleaner(latest, tombstones_below, AbortedSet())
    left = cleaner.clean(memoryview(batch), is_last=is_last)
    return left, cleaner.removed


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def batch_of(base: int, *pairs: tuple[str | None, str | None], **fields: int) -> bytes:
    records = [
        Record(base + at, 1000 + base + at, _bytes(key), _bytes(value))
        for at, (key, value) in enumerate(pairs)
    ]
    return build_batch(records, **fields)


# -- where records lie ----------------------------------------------------------------------------

some_bytes = st.none() | st.binary(max_size=300)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1 << 40),
            some_bytes,
            some_bytes,
            st.lists(st.tuples(st.text(max_size=5), some_bytes), max_size=2),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_spans_agree_with_the_codec(
    rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> None:
    records = [Record(at * 100, *row) for at, row in enumerate(rows)]
    payload = build_batch(records)[HEADER_BYTES:]

    spans = record_spans(payload, len(records))

    assert spans.keys == [record.key for record in records]
    assert spans.offset_deltas == [record.offset for record in records]
    assert spans.nulls == [record.value is None for record in records]
    deltas = [timestamp_delta(payload, start) for start in spans.starts[:-1]]
    assert deltas == [record.timestamp - records[0].timestamp for record in records]
    assert spans.starts[-1] == len(payload)


@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 5))
def test_spans_of_any_bytes_are_spans_or_an_error(payload: bytes, count: int) -> None:
    try:
        spans = record_spans(payload, count)
    except InvalidBatch:
        return
    assert len(spans.keys) == count
    assert spans.starts == sorted(spans.starts)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_record_cut_short_is_an_error(cut: int) -> None:
    payload = batch_of(0, ("key", "value"))[HEADER_BYTES:]
    with pytest.raises(InvalidBatch):
        record_spans(payload[:-cut], 1)


# -- the rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_compaction_keeps_the_framing_and_the_bytes_of_records(codec: Codec) -> None:
    pairs = [("a", "1" * 50), ("b", "2"), ("a", "3" * 50), ("c", "4")]
    batch = batch_of(70, *pairs, codec=codec, producer_id=9, producer_epoch=2, base_sequence=5)
    before = read_header(batch)

    left, removed = compacted(batch, learned(batch))

    assert left is not None
    after = read_header(left)
    assert is_whole(left)
    assert [(each.offset, each.key, each.value) for each in records_of(left)] == [
        (71, b"b", b"2"),
        (72, b"a", b"3" * 50),
        (73, b"c", b"4"),
    ]
    assert removed.superseded == removed.total == 1
    assert after._replace(batch_length=0, crc=0, record_count=0) == before._replace(
        batch_length=0, crc=0, record_count=0
    )
    expected = rebuild_batch(before, records_of(batch)[1:], codec=codec)
    assert records_of(expected) == records_of(left)
    if codec is Codec.NONE:
        assert bytes(left[CRC_START:]) == expected[CRC_START:]


def test_a_batch_that_loses_no_record_is_unchanged() -> None:
    batch = batch_of(0, ("a", "1"), ("b", "2"), codec=Codec.GZIP)
    view = memoryview(batch)
    left = Cleaner(learned(batch), 0, AbortedSet()).clean(view, is_last=False)
    assert left is view


def test_the_largest_timestamp_is_that_of_the_remaining_records() -> None:
    batch = batch_of(0, ("a", "1"), ("b", "2"))
    left, _ = compacted(batch, learned(batch, batch_of(2, ("b", "3"))))
    assert left is not None
    assert read_header(left).max_timestamp == 1000
    stamped = bytearray(batch_of(0, ("a", "1"), ("b", "2"), attributes=LOG_APPEND_TIME))
    left, _ = compacted(bytes(stamped), learned(batch, batch_of(2, ("b", "3"))))
    assert left is not None
    assert read_header(left).max_timestamp == 1001


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("claimed", [-1, 0, 1 << 50])
def test_a_header_that_says_a_false_time_is_made_true(claimed: int, codec: Codec) -> None:
    whole = build_batch([Record(0, 5, b"a", b"1"), Record(1, 9, b"b", b"2")], codec=codec)
    batch, _ = with_header(memoryview(whole), read_header(whole)._replace(max_timestamp=claimed))
    left, removed = compacted(bytes(batch), learned(bytes(batch)))
    assert left is not None
    assert is_whole(left)
    assert read_header(left).max_timestamp == 9
    assert records_of(left) == records_of(whole)
    assert removed == Removed()


def test_a_batch_that_loses_all_records_is_dropped_unless_it_is_the_last() -> None:
    batch = batch_of(4, ("a", "1"), ("b", None), codec=Codec.ZSTD)
    latest = learned(batch, batch_of(6, ("a", "2"), ("b", "3")))
    assert compacted(batch, latest)[0] is None

    left, removed = compacted(batch, latest, is_last=True)

    assert left is not None
    header = read_header(left)
    assert (header.base_offset, header.last_offset, header.record_count) == (4, 5, 0)
    assert (header.codec, len(left), is_whole(left)) == (0, HEADER_BYTES, True)
    assert header.max_timestamp == -1
    assert removed.superseded == 2
    again, _ = compacted(bytes(left), latest)
    assert again is None
    again, _ = compacted(bytes(left), latest, is_last=True)
    assert again is not None


def test_tombstones_stay_for_delete_retention_ms() -> None:
    batch = batch_of(10, ("a", None), ("b", None), ("c", "1"))
    latest = learned(batch)
    left, removed = compacted(batch, latest, tombstones_below=10)
    assert left is not None
    assert not removed.total
    left, removed = compacted(batch, latest, tombstones_below=11)
    assert left is not None
    assert [each.key for each in records_of(left)] == [b"b", b"c"]
    assert (removed.tombstones, removed.superseded) == (1, 0)


def test_records_without_a_key_are_removed() -> None:
    batch = batch_of(0, (None, "1"), ("a", "2"), (None, None))
    left, removed = compacted(batch, learned(batch))
    assert left is not None
    assert [each.key for each in records_of(left)] == [b"a"]
    assert removed.keyless == removed.total == 2


def test_an_unreadable_batch_stays_and_supersedes_nothing() -> None:
    good = batch_of(0, ("a", "1"), ("b", "2"))
    broken = bytearray(batch_of(2, ("a", "3")))
    broken[HEADER_BYTES] = 0x7E
    far = build_batch([Record(2, 0, b"a", b"x"), Record(1 << 20, 0, b"b", b"x")])
    header = read_header(far)
    far = rebuild_batch(header._replace(last_offset_delta=1), records_of(far), codec=0)
    control = batch_of(3, ("a", "4"), attributes=CONTROL)
    for hostile in (bytes(broken), far, control):
        latest = learned(good, hostile)
        left, removed = compacted(hostile, latest)
        assert bytes(left or b"") == hostile
        assert removed.unreadable == (hostile is not control)
        assert compacted(good, latest)[1].total == 0


def test_a_tombstone_after_an_unreadable_batch_stays() -> None:
    """The tombstone may delete records in the unreadable batch."""
    broken = bytearray(batch_of(2, ("a", "3")))
    broken[HEADER_BYTES] = 0x7E
    first, last = batch_of(0, ("b", None)), batch_of(3, ("a", None))
    latest = learned(first, bytes(broken), last)
    cleaner = Cleaner(latest, 100, AbortedSet())
    left = [cleaner.clean(memoryview(each), is_last=False) for each in (first, broken, last)]
    assert left[0] is None
    assert [bytes(each or b"") for each in left[1:]] == [bytes(broken), last]


@pytest.mark.parametrize(
    ("delta", "is_walked"), [(2**63 - 1, False), (-(2**63), True), (2**70, False)]
)
def test_timestamps_that_fit_no_header_do_not_stop_compaction(delta: int, is_walked: bool) -> None:
    records = [Record(0, 5, b"a", b"1"), Record(1, 5 + delta, b"b", b"2"), Record(2, 5, b"a", b"3")]
    header = read_header(batch_of(0, ("a", "1"), ("b", "2"), ("a", "3")))
    batch = rebuild_batch(header._replace(base_timestamp=5), records, codec=0)
    left, removed = compacted(batch, learned(batch))
    assert left is not None
    if not is_walked:
        assert (bytes(left), removed.unreadable) == (batch, 1)
        return
    assert (read_header(left).record_count, removed.superseded) == (2, 1)
    assert read_header(left).max_timestamp == 5


def test_long_keys_are_distinct_and_cost_no_more_than_others() -> None:
    keys = ["k" * 65 + str(number) for number in range(50)] + ["x" * 64, "y"]
    batch = batch_of(0, *[(key, "v") for key in keys])
    latest = learned(batch)
    assert len(latest.offsets) == len(keys)
    assert max(len(key or b"") for key in latest.offsets) <= 64
    assert latest.size_bytes == len(keys) * ENTRY_BYTES
    left, removed = compacted(batch, latest)
    assert (left is not None, removed.total) == (True, 0)
    _, removed = compacted(batch, learned(batch, batch_of(60, (keys[7], "new"))))
    assert removed.superseded == 1


def test_a_batch_with_too_many_records_is_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegate_pipeline.tasks.compaction.MAX_RECORDS", 2)
    batch = batch_of(0, ("a", "1"), ("a", "2"), ("a", "3"))
    left, removed = compacted(batch, learned(batch))
    assert (bytes(left or b""), removed.unreadable) == (batch, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_any_workload_keeps_the_newest_of_each_key(seed: int) -> None:
    rng = Random(seed)
    batches: list[bytes] = []
    offset = 0
    for _ in range(rng.randint(1, 12)):
        pairs = [
            (
                rng.choice([None, *"abcdefgh"]) if rng.random() < 0.9 else None,
                None if rng.random() < 0.3 else str(rng.random()),
            )
            for _ in range(rng.randint(1, 6))
        ]
        batches.append(batch_of(offset, *pairs, codec=rng.choice(CODECS)))
        offset += len(pairs)
    every = [record for batch in batches for record in records_of(batch)]
    below = rng.randint(0, offset)
    newest = {record.key: record.offset for record in every}
    expected = [
        record
        for record in every
        if record.key is not None
        and newest[record.key] == record.offset
        and (record.value is not None or record.offset >= below)
    ]
    latest = learned(*batches)
    cleaner = Cleaner(latest, below, AbortedSet())
    left = [cleaner.clean(memoryview(batch), is_last=False) for batch in batches]
    assert [record for batch in left if batch for record in records_of(batch)] == expected
    assert cleaner.removed.total == len(every) - len(expected)
