"""Checks of the records in batches: what is refused, which records are named, and the cost."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.topic_settings import TopicSettings, compile_topic_settings
from tidegate_gateway.produce.record_checks import MAX_RECORDS, looked_at
from tidegate_gateway.produce.refusals import MAX_RECORD_ERRORS, BatchRefused
from tidegate_protocol.batches import (
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    with_header,
)
from tidegate_protocol.compression import Codec, compress
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.records import Record, build_batch, decode_records, read_header

LIMIT = 256 << 20
NOW_MS = 1_700_000_000_000
TINY = b"\x0c\0\0\0\x01\x01\0"  # offset delta 0, no key, no value, no headers


def settings(**configs: str) -> TopicSettings:
    named = {name.replace("_", "."): text for name, text in configs.items()}
    return compile_topic_settings(named, BrokerLayers())


def records(*keys: bytes | None, timestamp: int = NOW_MS) -> list[Record]:
    return [Record(index, timestamp, key, b"v") for index, key in enumerate(keys)]


def check(topic: TopicSettings, batch: bytes) -> bytes:
    view = memoryview(batch)
    looked = looked_at(topic, view, read_header(view), NOW_MS, LIMIT, lambda: False)
    return bytes(looked.batch or with_header(view, looked.header)[0])


def refusal(topic: TopicSettings, batch: bytes) -> BatchRefused:
    with pytest.raises(BatchRefused) as caught:
        check(topic, batch)
    return caught.value


def changed(batch: bytes, **fields: int) -> bytes:
    """Return a batch with other header fields and a correct CRC."""
    view = memoryview(batch)
    return bytes(with_header(view, read_header(view)._replace(**fields))[0])


def tiny_records(count: int, declared: int = 0) -> bytes:
    payload = compress(TINY * count, Codec.ZSTD)
    count = declared or count
    head = (0, 49 + len(payload), -1, 2, 0, Codec.ZSTD, count - 1, NOW_MS, NOW_MS)
    return HEADER.pack(*head, -1, -1, -1, count) + payload


def test_a_correct_batch_stays_as_it_was() -> None:
    batch = build_batch(records(b"k", b"l"), codec=Codec.ZSTD)
    assert check(settings(cleanup_policy="compact"), batch) == batch


def test_keyless_records_are_named() -> None:
    refused = refusal(settings(cleanup_policy="compact"), build_batch(records(b"k", None, None)))
    assert refused.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.record_errors] == [1, 2]


def test_untimely_records_are_named() -> None:
    topic = settings(message_timestamp_before_max_ms="1000")
    old = build_batch([*records(b"k"), Record(1, NOW_MS - 1001, None, b"v")])
    refused = refusal(topic, old)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1]
    assert check(topic, build_batch(records(b"k", timestamp=-1)))


def test_records_that_skip_an_offset_are_refused() -> None:
    batch = build_batch([Record(0, NOW_MS, b"k", b"v"), Record(2, NOW_MS, b"k", b"v")])
    refused = refusal(settings(), batch)
    assert (refused.code, str(refused)) == (
        ErrorCode.INVALID_RECORD,
        "record 1 has offset delta 2",
    )


def test_records_that_cannot_be_decompressed_are_invalid() -> None:
    """INVALID_RECORD is final.  At CORRUPT_MESSAGE a producer would retry again and again."""
    batch = build_batch(records(b"k"), codec=Codec.GZIP)
    assert refusal(settings(), batch[:-4]).code == ErrorCode.INVALID_RECORD


def test_recompressed_records_are_checked_too() -> None:
    topic: dict[str, Any] = {"cleanup_policy": "compact", "compression_type": "lz4"}
    done = check(settings(**topic), build_batch(records(b"k", b"l")))
    assert read_header(done).codec == Codec.LZ4
    assert list(decode_records(done, max_decompressed_bytes=1000)) == records(b"k", b"l")
    assert refusal(settings(**topic), build_batch(records(None))).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_compressing_again_stops_when_no_request_waits(name: str) -> None:
    batch = memoryview(build_batch([Record(0, NOW_MS, b"k", bytes(3 << 20))]))
    topic = settings(compression_type=name)

    def looks_until(last: int) -> int:
        """Return how often the work asks whether a request waits; none does from call `last` on."""
        looks = count(1)
        with suppress(BatchRefused):
            looked_at(topic, batch, read_header(batch), NOW_MS, LIMIT, lambda: next(looks) >= last)
        return next(looks) - 1

    all_looks = looks_until(1_000)
    assert all_looks > 12, "of each piece of 256 KiB"
    assert [looks_until(each) for each in range(1, all_looks)] == list(range(1, all_looks))


def test_so_many_wrong_records_are_named() -> None:
    refused = refusal(settings(cleanup_policy="compact"), build_batch(records(*[None] * 1000)))
    assert len(refused.record_errors) == MAX_RECORD_ERRORS


def test_the_header_says_the_largest_time_of_the_records() -> None:
    batch = build_batch([Record(0, NOW_MS, b"k", b""), Record(1, NOW_MS - 50, b"k", b"")])
    for claimed in (0, 1, -1, NOW_MS - 50, NOW_MS + 10**12):
        stored = check(settings(), changed(batch, max_timestamp=claimed))
        assert stored == batch, claimed


def test_attributes_of_the_broker_are_cleared() -> None:
    batch = build_batch(records(b"k"), attributes=TRANSACTIONAL, producer_id=5, base_sequence=0)
    for bits in (LOG_APPEND_TIME, DELETE_HORIZON, 0x80, 0x4000):
        assert check(settings(), changed(batch, attributes=TRANSACTIONAL | bits)) == batch, bits


def test_a_time_stamp_too_far_ahead_is_found_below_a_true_header() -> None:
    batch = build_batch([Record(0, NOW_MS, b"k", b""), Record(1, NOW_MS + 4_000_000, b"k", b"")])
    refused = refusal(settings(), changed(batch, max_timestamp=NOW_MS))
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1]


def test_a_late_record_and_a_keyless_one_are_both_named() -> None:
    topic = settings(cleanup_policy="compact", message_timestamp_before_max_ms="1000")
    batch = build_batch([Record(0, NOW_MS, None, b""), Record(1, NOW_MS - 2000, b"k", b"")])
    refused = refusal(topic, batch)
    assert refused.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1]


def test_append_time_corrects_the_header_too_as_the_topic_may_change_before_the_commit() -> None:
    batch = build_batch(records(b"k"))
    topic = settings(message_timestamp_type="LogAppendTime")
    assert check(topic, changed(batch, max_timestamp=7)) == batch


def test_a_count_no_batch_can_hold_is_refused_unread() -> None:
    refused = refusal(settings(), tiny_records(1, MAX_RECORDS + 1))
    assert refused.code == ErrorCode.INVALID_RECORD
    assert f"more than {MAX_RECORDS}" in str(refused)


def test_many_records_are_not_held_at_once() -> None:
    batch = build_batch(records(*[b"k"] * 100_000), codec=Codec.ZSTD)
    tracemalloc.start()
    check(settings(cleanup_policy="compact"), batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
