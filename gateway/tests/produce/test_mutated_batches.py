"""2,000 batches with false headers, damaged records and odd streams: answered as by Apache Kafka.

compat-tests/mutated_batches has the cases and asks; Kafka's answers are recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import trio
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from mutated_batches import golden
from mutated_batches.asking import Clock, Facts, ask
from mutated_batches.cases import CODECS, Case, cases, mutations
from mutated_batches.comparing import Difference, compare
from mutated_batches.comparing import differing as differing_facts
from mutated_batches.permitted import PERMITTED, permission
from mutated_batches.playing import SETTINGS, create_topics
from mutated_batches.record_mutations import RARE
from trio.testing import MockClock

from tests.worlds.clients.on_wire import OnWire
from tests.worlds.wire_client import NOW_MS, wire_world
from tidegate_protocol.batch_walk import walk_batch
from tidegate_protocol.batches import check_batch, read_header
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.records import decode_records

ROOM = 64 << 20
# Cases that aiokafka cannot read, though Java clients can.
OF_AIOKAFKA = {
    "record attributes 255",
    "a header key that is not UTF-8",
    "a head of version 2",
}


async def played(chosen: Sequence[Case]) -> dict[int, Facts]:
    begun = trio.current_time()
    found: dict[int, Facts] = {}
    async with wire_world(dict(SETTINGS)) as world:
        await create_topics(OnWire(world.connect()))
        for case in chosen:
            now_ms = NOW_MS + int((trio.current_time() - begun) * 1000)
            found[case.number] = await ask(case, OnWire(world.connect()), now_ms)
    return found


def is_for_readers(batch: bytes) -> bool:
    """Return whether a batch has a valid header without LogAppendTime, which changes times."""
    try:
        return not check_batch(memoryview(batch)).is_log_append_time
    except InvalidBatch:
        return False


def seen_by_walk(batch: bytes) -> int | None:
    """Return the largest time stamp; None if the batch is malformed."""
    header = read_header(batch)
    try:
        walk = walk_batch(memoryview(batch), header, max_bytes=ROOM)
    except InvalidBatch:
        return None
    return walk.max_timestamp if walk.next_offset == 2 * header.record_count else None


def decoded(batch: bytes) -> list[tuple[int, int]]:
    found = decode_records(batch, max_decompressed_bytes=ROOM)
    return [(each.offset, each.timestamp) for each in found]


def decoded_by_aiokafka(batch: bytes) -> list[tuple[int, int]]:
    return [(each.offset, each.timestamp) for each in DefaultRecordBatch(bytearray(batch))]


def seen_by(batch: bytes, decode: Callable[[bytes], list[tuple[int, int]]]) -> int | None:
    """Return what seen_by_walk() returns, but with another decoder."""
    try:
        rows = decode(batch)
    except (InvalidBatch, CorruptRecordException):
        return None
    is_numbered = [offset for offset, _ in rows] == list(range(len(rows)))
    return max(-1, *(time for _, time in rows)) if is_numbered else None


async def differing(chosen: Sequence[Case]) -> list[Difference]:
    return list(compare(golden.read(), await played(chosen)))


def not_permitted(differences: Sequence[Difference]) -> list[str]:
    return [str(each) for each in differences if permission(each) is None]


async def test_every_tenth_batch_is_answered_stored_and_found_as_by_kafka(
    autojump_clock: MockClock,
) -> None:
    assert not_permitted(await differing(cases()[::10])) == []


@pytest.mark.slow
async def test_all_batches_are_answered_stored_and_found_as_by_kafka(
    autojump_clock: MockClock,
) -> None:
    differences = await differing(cases())
    assert not_permitted(differences) == []
    used = Counter(found.name for each in differences if (found := permission(each)))
    assert [each.name for each in PERMITTED if each.name not in used] == []


def test_the_cases_change_every_field_with_every_codec() -> None:
    assert len(cases()) == 2_000
    alone = {(each.codec, each.changes[0]) for each in cases() if len(each.changes) == 1}
    for codec in CODECS:
        assert {(codec, each) for each in mutations(codec) if each not in RARE} <= alone


def test_our_reader_agrees_with_the_walk_and_aiokafka_reads_what_it_accepts() -> None:
    judged = 0
    for case in cases():
        batch = case.draft(NOW_MS).built()
        if batch is None or not is_for_readers(batch) or set(case.changes) & set(RARE):
            continue
        judged += 1
        walked = seen_by_walk(batch)
        assert seen_by(batch, decoded) == walked, case
        is_refused = any(each in OF_AIOKAFKA for each in case.changes)
        if walked is not None and not is_refused:
            assert seen_by(batch, decoded_by_aiokafka) == walked, case
    assert judged > 1_400


def test_a_batch_is_the_same_whenever_it_is_made() -> None:
    for case in cases()[::40]:
        one, other = (case.draft(NOW_MS).built() for _ in range(2))
        assert one == other
        assert case.draft(NOW_MS + 1).built() is not None


def test_a_batch_that_is_not_changed_is_one_of_ours() -> None:
    batch = cases()[0].draft(NOW_MS).built()
    assert batch is not None
    header = check_batch(memoryview(batch))
    records = list(decode_records(batch, max_decompressed_bytes=1 << 20))
    assert len(records) == header.record_count
    assert header.max_timestamp == max(each.timestamp for each in records)


def test_times_are_compared_relative_to_now() -> None:
    clock = Clock(NOW_MS)
    shown = [
        clock.show(each) for each in (NOW_MS - 5, NOW_MS + 5, NOW_MS + 10**6, 0, -1, 2**63 - 1)
    ]
    assert shown == ["now-5", "now", "now+1000000", 0, -1, 2**63 - 1]


def test_another_answer_is_a_difference() -> None:
    case = cases()[0]
    kafka: Facts = {"code": 0, "offset": 0}
    assert list(differing_facts(case, kafka, {"code": 0, "offset": 0})) == []
    [difference] = differing_facts(case, kafka, {"code": 87, "text": True})
    assert permission(difference) is None
    assert "code: Kafka 0, gateway 87" in str(difference)


def test_every_permission_has_a_name_and_a_reason() -> None:
    names = [each.name for each in PERMITTED]
    assert len(set(names)) == len(names)
    assert all(each.reason.endswith(".") for each in PERMITTED)
