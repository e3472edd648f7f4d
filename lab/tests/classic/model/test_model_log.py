"""One partition of a classic cluster, by tables: what is stored, refused and read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate_protocol.batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.records import Record, build_batch, decode_records, read_header, walk
from tidegate_simulation.classic.log.batch_checks import SoundBatch, check_client_batch, one_batch
from tidegate_simulation.classic.log.faults import (
    raise_log_start,
    remove_records,
    replace_by_empty_batch,
    set_delete_horizon,
    truncate,
)
from tidegate_simulation.classic.log.model_log import COMMITTED, LOG_END, WATERMARK, ModelLog
from tidegate_simulation.classic.refusals import Refused
from tidegate_simulation.classic.topic_settings import TopicSettings

NOW_MS = 1_700_000_000_000
OPEN = TopicSettings()
FENCED = TopicSettings(max_message_bytes=0)


def batch(count: int = 1, *, key: bytes | None = b"k", time_ms: int = NOW_MS, **head: int) -> bytes:
    """A client's batch with count records."""
    records = [Record(place, time_ms + place, key, b"v%d" % place) for place in range(count)]
    return build_batch(records, **head)


def idempotent(sequence: int, count: int = 1, *, epoch: int = 0, attributes: int = 0) -> bytes:
    """A batch of producer 7."""
    return batch(
        count, producer_id=7, producer_epoch=epoch, base_sequence=sequence, attributes=attributes
    )


def damaged(raw: bytes, position: int = -1) -> bytes:
    """The batch with one wrong bit; by default its CRC does not match."""
    data = bytearray(raw)
    data[position] ^= 1
    return bytes(data)


def put(log: ModelLog, raw: bytes, settings: TopicSettings = OPEN) -> int:
    """Append a batch and replicate it; return its first offset."""
    sound = check_client_batch(one_batch(raw, 9), settings, NOW_MS)
    appended = log.append(sound, settings, NOW_MS)
    log.raise_high_watermark(log.end_offset)
    return appended.first_offset


def code_of(act: Callable[[], object]) -> ErrorCode:
    """The code of the refusal; NONE if there is none."""
    try:
        act()
    except Refused as refused:
        return refused.code
    return ErrorCode.NONE


def renumbered(raw: bytes, base_offset: int) -> bytes:
    """The batch with another base offset, which the CRC does not cover."""
    return base_offset.to_bytes(8, "big") + raw[8:]


LATE = NOW_MS + 3_600_001


@pytest.mark.parametrize(
    ("raw", "settings", "code"),
    [
        (batch(), OPEN, 0),
        (batch(3, codec=Codec.ZSTD), OPEN, 0),
        (b"", OPEN, 87),
        (batch()[:-1], OPEN, 87),
        (batch() + batch(), OPEN, 87),
        (batch() + batch()[:-1], OPEN, 0),
        (batch() + bytes(12), OPEN, 2),
        (damaged(batch(), 16), OPEN, 2),
        (damaged(batch()), OPEN, 2),
        (damaged(batch()), FENCED, 10),
        (batch(), FENCED, 10),
        (renumbered(batch(), 5), FENCED, 87),
        (renumbered(damaged(batch()), 5), OPEN, 87),
        (batch(attributes=CONTROL), OPEN, 87),
        (batch(producer_id=7, producer_epoch=0), OPEN, 87),
        (batch(key=None), TopicSettings(is_compacted=True), 87),
        (batch(time_ms=LATE), OPEN, 32),
        (batch(time_ms=LATE), TopicSettings(uses_append_time=True), 0),
        (batch(attributes=LOG_APPEND_TIME), OPEN, 0),
        (batch(attributes=LOG_APPEND_TIME), TopicSettings(uses_append_time=True), 32),
        (batch(40), TopicSettings(segment_bytes=100), 18),
    ],
)
def test_the_first_check_that_fails_gives_the_code(
    raw: bytes, settings: TopicSettings, code: int
) -> None:
    assert code_of(lambda: put(ModelLog(), raw, settings)) == code


@pytest.mark.parametrize(("version", "code"), [(6, 76), (7, 0)])
def test_zstd_needs_version_7(version: int, code: int) -> None:
    assert code_of(lambda: one_batch(batch(codec=Codec.ZSTD), version)) == code


@pytest.mark.parametrize(
    ("before", "then", "code", "offset"),
    [
        ([], idempotent(5), 0, 0),
        ([idempotent(0), idempotent(1)], idempotent(1), 0, 1),
        ([idempotent(0, 3)], idempotent(0, 2), 45, None),
        ([idempotent(0)], idempotent(2), 45, None),
        ([idempotent(each) for each in range(6)], idempotent(0), 45, None),
        ([idempotent(each) for each in range(6)], idempotent(1), 0, 1),
        ([idempotent(0, epoch=1)], idempotent(1, epoch=0), 47, None),
        ([idempotent(0)], idempotent(0, epoch=1), 0, 1),
        ([idempotent(0)], idempotent(1, epoch=1), 45, None),
        ([idempotent(2**31 - 1)], idempotent(0), 0, 1),
        ([idempotent(0, attributes=TRANSACTIONAL)], idempotent(1), 48, None),
    ],
)
def test_sequences_are_checked_against_the_last_five_batches(
    before: list[bytes], then: bytes, code: int, offset: int | None
) -> None:
    log = ModelLog()
    for each in before:
        put(log, each)
    end_offset = log.end_offset
    assert code_of(lambda: put(log, then)) == code
    if offset is not None:
        repeated = offset < end_offset
        assert log.end_offset == (end_offset if repeated else offset + 1)


def test_a_transactional_batch_outside_its_transaction_is_refused() -> None:
    sound = check_client_batch(idempotent(0, attributes=TRANSACTIONAL), OPEN, NOW_MS)
    log = ModelLog()
    assert code_of(lambda: log.append(sound, OPEN, NOW_MS, is_verified=False)) == 48
    log.append(sound, OPEN, NOW_MS)
    more = check_client_batch(idempotent(1, attributes=TRANSACTIONAL), OPEN, NOW_MS)
    assert log.append(more, OPEN, NOW_MS, is_verified=False).first_offset == 1


def test_stored_bytes_have_offset_and_epoch_and_their_old_crc() -> None:
    log = ModelLog(leader_epoch=4)
    put(log, batch(3))
    raw = batch(2, codec=Codec.GZIP)
    put(log, raw)
    stored = log.batches[1]
    assert (stored.header.base_offset, stored.header.leader_epoch) == (3, 4)
    assert stored.raw[16:] == raw[16:]
    assert read_header(stored.raw).crc == read_header(raw).crc


def test_append_time_is_written_with_a_new_crc() -> None:
    log, settings = ModelLog(), TopicSettings(uses_append_time=True)
    put(log, batch(2, time_ms=5), settings)
    header = log.batches[0].header
    assert header.is_log_append_time
    assert header.max_timestamp == NOW_MS
    times = [
        each.timestamp for each in decode_records(log.batches[0].raw, max_decompressed_bytes=99)
    ]
    assert times == [NOW_MS, NOW_MS]


def filled() -> ModelLog:
    """Batches of 1, 2, 3 and 4 records: offsets 0, 1-2, 3-5, 6-9."""
    log = ModelLog()
    for count in (1, 2, 3, 4):
        put(log, batch(count, time_ms=NOW_MS + 1000 * count))
    return log


def spans(records: bytes) -> list[tuple[int, int]]:
    """First and last offset of each batch."""
    return [(each.base_offset, each.last_offset) for _, each in walk(memoryview(records))]


@pytest.mark.parametrize(
    ("offset", "max_bytes", "whole_first", "found"),
    [
        (0, 10_000, True, [(0, 0), (1, 2), (3, 5), (6, 9)]),
        (4, 10_000, True, [(3, 5), (6, 9)]),
        (4, 1, True, [(3, 5)]),
        (4, 1, False, []),
        (4, 0, False, []),
        (10, 10_000, True, []),
    ],
)
def test_reads_begin_with_the_batch_that_holds_the_offset(
    offset: int, max_bytes: int, whole_first: bool, found: list[tuple[int, int]]
) -> None:
    read = filled().read(offset, max_bytes, WATERMARK, whole_first=whole_first)
    assert spans(read.records) == found


def test_the_last_batch_of_a_read_may_be_cut() -> None:
    log = filled()
    first = len(log.batches[0].raw)
    assert len(log.read(0, first + 10, WATERMARK, whole_first=True).records) == first + 10


@pytest.mark.parametrize("offset", [-1, 2, 11])
def test_reads_outside_the_log_are_refused(offset: int) -> None:
    log = filled()
    raise_log_start(log, 3)
    assert code_of(lambda: log.read(offset, 100, WATERMARK, whole_first=True)) == 1


def test_reads_stop_at_the_high_watermark_and_at_open_transactions() -> None:
    log = ModelLog()
    put(log, batch())
    put(log, idempotent(0, attributes=TRANSACTIONAL))
    log.append(check_client_batch(batch(), OPEN, NOW_MS), OPEN, NOW_MS)
    assert (log.last_stable_offset, log.high_watermark, log.end_offset) == (1, 2, 3)
    ends = {
        each: spans(log.read(0, 999, each, whole_first=True).records)
        for each in (COMMITTED, WATERMARK, LOG_END)
    }
    assert {each: len(found) for each, found in ends.items()} == {
        COMMITTED: 1,
        WATERMARK: 2,
        LOG_END: 3,
    }
    assert log.read(2, 999, WATERMARK, whole_first=True).records == b""


def aborted(log: ModelLog, offset: int) -> list[tuple[int, int]] | None:
    """Producer and first offset of the aborted transactions that a reader gets."""
    found = log.read(offset, 9999, COMMITTED, whole_first=True).aborted
    return None if found is None else [(each.producer_id, each.first_offset) for each in found]


def test_a_marker_ends_a_transaction_once_it_is_replicated() -> None:
    log = ModelLog()
    put(log, idempotent(0, attributes=TRANSACTIONAL))
    assert log.append_marker(7, 0, committed=False, now_ms=NOW_MS, settings=OPEN) == 1
    assert log.last_stable_offset == 0
    log.raise_high_watermark(2)
    assert log.last_stable_offset == 2
    assert (aborted(log, 0), aborted(log, 1), aborted(log, 2)) == ([(7, 0)], [(7, 0)], [])
    put(log, idempotent(1, attributes=TRANSACTIONAL))
    log.append_marker(7, 0, committed=True, now_ms=NOW_MS, settings=OPEN)
    log.raise_high_watermark(4)
    assert aborted(log, 2) == []
    assert (
        code_of(lambda: log.append_marker(7, -1, committed=True, now_ms=NOW_MS, settings=OPEN))
        == 47
    )


def test_the_last_stable_offset_may_lie_before_the_log_start() -> None:
    log = ModelLog()
    put(log, idempotent(0, attributes=TRANSACTIONAL))
    put(log, batch(5))
    raise_log_start(log, 3)
    assert (log.last_stable_offset, log.log_start) == (1, 3)


def test_compaction_keeps_offsets_and_leaves_gaps() -> None:
    log = filled()
    remove_records(log, {1, 2, 4, 6, 7, 8, 9})
    assert [each.header.base_offset for each in log.batches] == [0, 3]
    left = decode_records(log.batches[1].raw, max_decompressed_bytes=999)
    assert [each.offset for each in left] == [3, 5]
    assert log.end_offset == 10
    assert spans(log.read(1, 999, WATERMARK, whole_first=True).records) == [(3, 5)]
    assert log.read(6, 999, WATERMARK, whole_first=True).records == b""


def test_compaction_keeps_the_last_batch_of_a_producer_as_an_empty_one() -> None:
    log = ModelLog()
    put(log, idempotent(0, 2))
    put(log, idempotent(2, 2))
    put(log, batch())
    remove_records(log, range(5))
    assert [(each.header.base_offset, each.header.record_count) for each in log.batches] == [(2, 0)]
    truncate(log, 5)
    assert log.producers.by_id[7].last_sequence == 3


def test_other_traces_of_compaction_are_readable() -> None:
    log = filled()
    replace_by_empty_batch(log, 1)
    set_delete_horizon(log, 3, NOW_MS + 5)
    records = log.read(0, 9999, WATERMARK, whole_first=True).records
    heads = [each for _, each in walk(memoryview(records))]
    assert [(each.record_count, each.has_delete_horizon) for each in heads] == [
        (1, False),
        (0, False),
        (3, True),
        (4, False),
    ]
    times = [
        each.timestamp for each in decode_records(log.batches[2].raw, max_decompressed_bytes=999)
    ]
    assert times == [NOW_MS + 3000, NOW_MS + 3001, NOW_MS + 3002]


def test_retention_may_end_inside_a_batch() -> None:
    log = filled()
    raise_log_start(log, 4)
    assert log.log_start == 4
    assert spans(log.read(4, 9999, WATERMARK, whole_first=True).records)[0] == (3, 5)
    raise_log_start(log, 99)
    assert (log.log_start, log.batches) == (10, [])
    assert put(log, batch()) == 10


def test_truncation_loses_whole_batches_and_their_producers() -> None:
    log = filled()
    log.begin_epoch(3)
    put(log, idempotent(0))
    truncate(log, 8)
    assert (log.end_offset, log.high_watermark, log.producers.by_id) == (6, 6, {})
    log.begin_epoch(5)
    assert [tuple(each) for each in log.epochs.starts] == [(0, 0), (5, 6)]


@pytest.mark.parametrize(
    ("epoch", "answer"), [(0, (0, 3)), (1, (0, 3)), (2, (2, 10)), (4, (-1, -1)), (-1, (-1, -1))]
)
def test_epochs_end_where_the_next_begins(epoch: int, answer: tuple[int, int]) -> None:
    log = ModelLog()
    put(log, batch(3))
    log.begin_epoch(2)
    put(log, batch(7))
    assert log.epochs.end_of(epoch, log.end_offset) == answer


def test_an_epoch_without_records_is_forgotten() -> None:
    log = filled()
    for epoch in (1, 2, 6):
        log.begin_epoch(epoch)
    assert [tuple(each) for each in log.epochs.starts] == [(0, 0), (6, 10)]
    raise_log_start(log, 7)
    assert [tuple(each) for each in log.epochs.starts] == [(0, 7), (6, 10)]
    assert [log.epochs.epoch_of(each) for each in (6, 7, 10)] == [-1, 0, 6]


@pytest.mark.parametrize(
    ("time_ms", "offset"), [(0, 0), (NOW_MS + 2001, 2), (NOW_MS + 2002, 3), (NOW_MS + 9000, None)]
)
def test_records_are_found_by_time(time_ms: int, offset: int | None) -> None:
    found = filled().find_time(time_ms)
    assert (found.offset if found else None) == offset


def test_the_latest_time_is_not_always_the_last_record() -> None:
    log = filled()
    put(log, batch(time_ms=5))
    found = log.find_latest_time()
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (9, NOW_MS + 4003)


def test_the_latest_time_may_be_that_of_an_expired_record() -> None:
    log = ModelLog()
    put(log, batch(time_ms=NOW_MS))
    put(log, batch(time_ms=5))
    raise_log_start(log, 1, deletes=False)
    assert log.find_latest_time() == (0, NOW_MS, 0)
    assert log.find_time(6) is None


def test_a_wrong_largest_time_is_mended() -> None:
    log, raw = ModelLog(), batch(2)
    header = read_header(raw)
    sound = SoundBatch(raw, header, header.max_timestamp - 1)
    log.append(sound, OPEN, NOW_MS)
    stored = log.batches[0]
    assert stored.header.max_timestamp == header.max_timestamp - 1
    assert check_client_batch(stored.raw, OPEN, NOW_MS)  # its CRC is right
