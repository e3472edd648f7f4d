"""Batches that a producer may not send: only their partition gets an error, as in Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from crc32c import crc32c
from trio.testing import MockClock

from tests.worlds.cluster.neighbour import TOPIC, neighboured
from tests.worlds.wire_client import (
    NOW_MS,
    Closed,
    produce_request,
    records_batch,
    wire_world,
)
from tidegate_protocol.batches import (
    CONTROL,
    CRC_POSITION,
    CRC_START,
    HEADER,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    read_header,
)
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import Record, build_batch

GOOD = records_batch(b"one", b"two")


def changed(**fields: int) -> bytes:
    """Return GOOD with other header fields and a correct CRC."""
    batch = bytearray(HEADER.pack(*read_header(GOOD)._replace(**fields)) + GOOD[HEADER.size :])
    batch[CRC_POSITION:CRC_START] = crc32c(bytes(batch[CRC_START:])).to_bytes(4, "big")
    return bytes(batch)


def flipped(position: int) -> bytes:
    batch = bytearray(GOOD)
    batch[position] ^= 1
    return bytes(batch)


def old_message_set(magic: int) -> bytes:
    """Return a message of magic 0 or 1: offset, size, crc, magic, attributes, key, value."""
    times = b"" if magic == 0 else NOW_MS.to_bytes(8, "big")
    message = bytes([magic, 0]) + times + b"\xff\xff\xff\xff" + b"\0\0\0\1x"
    return bytes(8) + (len(message) + 4).to_bytes(4, "big") + bytes(4) + message


FAR_FUTURE = build_batch([Record(0, NOW_MS + 2 * 3_600_000, None, b"x", ())])

BAD_BATCHES: dict[str, tuple[bytes | None, E]] = {
    "wrong CRC in the header": (flipped(CRC_POSITION), E.CORRUPT_MESSAGE),
    "changed byte in a record": (flipped(len(GOOD) - 1), E.CORRUPT_MESSAGE),
    "magic 0 in a batch": (changed(magic=0), E.INVALID_RECORD),
    "magic 1 in a batch": (changed(magic=1), E.INVALID_RECORD),
    "magic 3": (changed(magic=3), E.CORRUPT_MESSAGE),
    "message set of magic 0": (old_message_set(0), E.INVALID_RECORD),
    "message set of magic 1": (old_message_set(1), E.INVALID_RECORD),
    "more records counted than deltas": (changed(record_count=3), E.INVALID_RECORD),
    "fewer records counted than deltas": (changed(record_count=1), E.INVALID_RECORD),
    "no records": (changed(record_count=0, last_offset_delta=-1), E.INVALID_RECORD),
    "negative count": (changed(record_count=-1), E.INVALID_RECORD),
    "count and delta at their most": (
        changed(record_count=2**31 - 1, last_offset_delta=2**31 - 1),
        E.INVALID_RECORD,
    ),
    "two batches": (GOOD + GOOD, E.INVALID_RECORD),
    "null records": (None, E.INVALID_RECORD),
    "empty records": (b"", E.INVALID_RECORD),
    "half a header": (GOOD[:30], E.INVALID_RECORD),
    "batch without its last byte": (GOOD[:-1], E.INVALID_RECORD),
    "batch and a byte": (GOOD + b"\0", E.INVALID_RECORD),
    "negative batch length": (changed(batch_length=-1), E.CORRUPT_MESSAGE),
    "batch length of 2^31 - 1": (changed(batch_length=2**31 - 1), E.INVALID_RECORD),
    "base offset that is not 0": (changed(base_offset=7), E.INVALID_RECORD),
    "control batch": (changed(attributes=CONTROL), E.INVALID_RECORD),
    "codec 7": (changed(attributes=7), E.INVALID_RECORD),
    "producer id without a sequence": (changed(producer_id=5), E.INVALID_RECORD),
    "time stamp of tomorrow": (FAR_FUTURE, E.INVALID_TIMESTAMP),
    "larger than max.message.bytes": (records_batch(b"x" * 1_100_000), E.MESSAGE_TOO_LARGE),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
@pytest.mark.parametrize("version", [3, 9, 13])
async def test_bad_batch_fails_its_partition_only(
    name: str, version: int, autojump_clock: MockClock
) -> None:
    batch, code = BAD_BATCHES[name]
    async with neighboured() as scene:
        topic = TOPIC if version < 13 else ""
        partitions = [pr.PartitionProduceData(0, batch), pr.PartitionProduceData(1, GOOD)]
        topic_id = scene.topic_id if version >= 13 else bytes(16)
        data = pr.TopicProduceData(topic, topic_id, partitions)
        answer = await scene.offender.call(
            "Produce", version, pr.ProduceRequest(None, -1, 1000, [data])
        )
        bad, good = answer.responses[0].partition_responses
        assert (bad.error_code, bad.base_offset) == (code, -1)
        assert (good.error_code, good.base_offset) == (0, 1)
        assert version < 8 or bad.error_message
        assert await scene.offender.fetch_values(TOPIC, 0, 0) == []
        assert await scene.offender.fetch_values(TOPIC, 1, 1) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("timestamp_type", "code"),
    [("CreateTime", E.NONE), ("LogAppendTime", E.INVALID_TIMESTAMP)],
)
async def test_the_mark_of_append_time_is_cleared_or_refused(
    timestamp_type: str, code: E, autojump_clock: MockClock
) -> None:
    """Kafka refuses the bit only on topics with LogAppendTime, where it would be true."""
    async with wire_world() as world:
        await world.create_topic("t", 1, message_timestamp_type=timestamp_type)
        client = world.connect()
        answer = await client.produce("t", 0, changed(attributes=LOG_APPEND_TIME))
        assert answer.error_code == code
        if code == E.NONE:
            stored = await client.fetch_stored("t", 0, 0)
            assert not read_header(stored).is_log_append_time


@pytest.mark.parametrize(
    ("topic", "partition"), [("nowhere", 0), (TOPIC, 2), (TOPIC, -1), (TOPIC, 2**31 - 1), ("", 0)]
)
async def test_unknown_partition(topic: str, partition: int, autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        answer = await scene.offender.produce(topic, partition, GOOD)
        assert answer.error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("topic_id", [bytes(16), b"\1" * 16])
async def test_unknown_topic_id(topic_id: bytes, autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        request = produce_request([("", 0, GOOD)], topic_id=topic_id)
        answer = await scene.offender.call("Produce", 13, request)
        assert answer.responses[0].partition_responses[0].error_code == E.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"acks": 2}, E.INVALID_REQUIRED_ACKS),
        ({"acks": -2}, E.INVALID_REQUIRED_ACKS),
    ],
)
async def test_request_that_fails_as_a_whole(
    more: dict[str, Any], code: E, autojump_clock: MockClock
) -> None:
    async with neighboured() as scene:
        batches = [(TOPIC, 0, GOOD), ("nowhere", 0, GOOD)]
        answer = await scene.offender.call("Produce", 9, produce_request(batches, **more))
        codes = [each.partition_responses[0].error_code for each in answer.responses]
        assert codes == [code, code]
        assert await scene.offender.fetch_values(TOPIC, 0, 0) == []


@pytest.mark.parametrize("transactional_id", ["t", ""])
async def test_a_plain_batch_may_come_with_a_transactional_id(
    transactional_id: str, autojump_clock: MockClock
) -> None:
    async with neighboured() as scene:
        request = produce_request([(TOPIC, 0, GOOD)], transactional_id=transactional_id)
        answer = await scene.offender.call("Produce", 9, request)
        assert answer.responses[0].partition_responses[0].error_code == E.NONE


async def test_transactional_batch_without_a_transaction(autojump_clock: MockClock) -> None:
    batch = changed(attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0)
    async with neighboured() as scene:
        answer = await scene.offender.produce(TOPIC, 0, batch)
        assert answer.error_code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_zstd_in_a_version_before_it(autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        request = produce_request([(TOPIC, 0, records_batch(b"x" * 100, codec=4))])
        old = await scene.offender.call("Produce", 6, request)
        new = await scene.offender.call("Produce", 7, request)
        codes = [each.responses[0].partition_responses[0].error_code for each in (old, new)]
        assert codes == [E.UNSUPPORTED_COMPRESSION_TYPE, E.NONE]


def of_producer(sequence: int, epoch: int = 1) -> bytes:
    return changed(producer_id=5, producer_epoch=epoch, base_sequence=sequence)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (of_producer(4), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (of_producer(2, epoch=0), E.INVALID_PRODUCER_EPOCH),
        (of_producer(3, epoch=2), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
async def test_sequence_that_does_not_follow(
    batch: bytes, code: E, autojump_clock: MockClock
) -> None:
    async with neighboured() as scene:
        first = await scene.offender.produce(TOPIC, 0, of_producer(0))
        again = await scene.offender.produce(TOPIC, 0, of_producer(0))
        assert (first.error_code, again.error_code) == (0, 0)
        assert first.base_offset == again.base_offset == 0
        assert (await scene.offender.produce(TOPIC, 0, batch)).error_code == code
        following = await scene.offender.produce(TOPIC, 0, of_producer(2))
        assert (following.error_code, following.base_offset) == (0, 2)


@pytest.mark.parametrize(
    ("setting", "batch", "code"),
    [
        ({"max_message_bytes": "100"}, records_batch(b"x" * 100), E.MESSAGE_TOO_LARGE),
        ({"cleanup_policy": "compact"}, GOOD, E.INVALID_RECORD),
        ({"message_timestamp_before_max_ms": "1"}, GOOD, E.INVALID_TIMESTAMP),
        ({"compression_type": "zstd"}, changed(attributes=1), E.INVALID_RECORD),
        ({"compression_type": "zstd"}, changed(attributes=2), E.INVALID_RECORD),
        ({"compression_type": "gzip"}, changed(attributes=3), E.INVALID_RECORD),
        ({"compression_type": "gzip"}, changed(attributes=4), E.INVALID_RECORD),
        (
            {"compression_type": "gzip"},
            changed(record_count=9, last_offset_delta=8),
            E.INVALID_RECORD,
        ),
    ],
)
async def test_rules_of_a_topic(
    setting: dict[str, str], batch: bytes, code: E, autojump_clock: MockClock
) -> None:
    async with neighboured() as scene:
        await scene.world.create_topic("strict", 1, **setting)
        await trio.sleep(5)
        answer = await scene.offender.produce("strict", 0, batch)
        assert answer.error_code == code, answer


@pytest.mark.parametrize(("size_bytes", "code"), [(15 << 20, E.NONE), (30 << 20, E.INVALID_RECORD)])
async def test_a_bomb_is_walked_in_pieces_and_up_to_a_bound(
    size_bytes: int, code: E, autojump_clock: MockClock
) -> None:
    bomb = records_batch(bytes(size_bytes), codec=4)
    assert len(bomb) < 10_000
    async with neighboured() as scene:
        answer = await scene.offender.produce(TOPIC, 0, bomb)
        assert answer.error_code == code


NO_ANSWER: dict[str, Callable[[], tuple[str, int, bytes | None]]] = {
    "CORRUPT_MESSAGE": lambda: (TOPIC, 0, flipped(CRC_POSITION)),
    "INVALID_RECORD": lambda: (TOPIC, 0, GOOD + GOOD),
    "UNKNOWN_TOPIC_OR_PARTITION": lambda: ("nowhere", 0, GOOD),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": lambda: (TOPIC, 0, of_producer(4)),
}


@pytest.mark.parametrize("code", NO_ANSWER)
async def test_failure_without_acks_closes(code: str, autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        assert (await scene.connect().produce(TOPIC, 0, of_producer(0))).error_code == 0
        request = produce_request([NO_ANSWER[code]()], acks=0)
        with pytest.raises(Closed):
            await scene.offender.call("Produce", 9, request)
        assert scene.reasons == [f"a produce request with acks=0 failed: {code}"]


async def test_success_without_acks_says_nothing(autojump_clock: MockClock) -> None:
    async with neighboured() as scene:
        request = produce_request([(TOPIC, 0, GOOD)], acks=0)
        with pytest.raises(trio.TooSlowError), trio.fail_after(10):
            await scene.offender.call("Produce", 9, request)
        assert await scene.offender.fetch_values(TOPIC, 0, 0) == [b"one", b"two"]
