"""Comparable facts of a broker: its answer to a case, its stored batches, its finds by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from crc32c import crc32c
from transactions.differential.wire import Caller, ConnectionLost, Request

from mutated_batches.cases import Case
from mutated_batches.draft import HOUR_MS
from mutated_batches.record_mutations import FAR_MS
from tidegate_protocol.batches import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchHeader,
    read_header,
)
from tidegate_protocol.errors import InvalidBatch
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.records import decode_records

Facts = dict[str, Any]
CLOSED: Final[Facts] = {"code": "closed"}
NEWEST: Final = -3
ANSWER_MS: Final = 300_000
"""Time stamps of so long after the case began are those of its appending."""
_MAX_BYTES: Final = 64 << 20
_SHOWN: Final = 8
_FAR: Final = 10**14
_NEAR_ZERO: Final = 10**11
_STORED: Final = (
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


async def ask(case: Case, caller: Caller, now_ms: int) -> Facts:
    """Produce a case's batch to its partition, read it back, and search in it.

    now_ms: wall clock.
    """
    batch = case.draft(now_ms).built()
    try:
        answer = await caller.call(Request("Produce", 9, _produce(case, batch)))
    except ConnectionLost:
        return CLOSED
    clock = Clock(now_ms)
    [topic] = answer.responses
    [found] = topic.partition_responses
    facts: Facts = {"code": found.error_code}
    if found.error_message is not None:
        facts["text"] = True
    if found.record_errors:
        facts["errors"] = [each.batch_index for each in found.record_errors]
    if found.log_append_time_ms != -1:
        facts["time"] = clock.show(found.log_append_time_ms)
    if found.error_code == 0:
        facts["offset"] = found.base_offset
    return facts | await _stored(case, caller, clock, batch or b"")


class Clock:
    """Converts times into values that can be compared."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def show(self, timestamp: int) -> int | str:
        """Return a time stamp relative to now; unchanged if near zero or far from any clock."""
        if abs(timestamp) > _FAR or abs(timestamp) < _NEAR_ZERO:
            return timestamp
        since = timestamp - self.now_ms
        return "now" if 0 <= since <= ANSWER_MS else f"now{since:+}"

    def searched(self) -> Iterator[int]:
        """Yield the times that each case searches for."""
        yield from (NEWEST, 0, 1, 1001)
        base = self.now_ms - HOUR_MS
        yield from (base, base + 1, base + 2_500, base + 60_000, self.now_ms - 1000)
        yield from (self.now_ms + HOUR_MS // 2, self.now_ms + FAR_MS)


def _produce(case: Case, batch: bytes | None) -> pr.ProduceRequest:
    data = pr.PartitionProduceData(case.partition, batch)
    return pr.ProduceRequest(
        None, -1, 30_000, [pr.TopicProduceData(case.topic, partition_data=[data])]
    )


async def _stored(case: Case, caller: Caller, clock: Clock, sent: bytes) -> Facts:
    asked = fe.FetchPartition(case.partition, fetch_offset=0, partition_max_bytes=_MAX_BYTES)
    topics = [fe.FetchTopic(topic=case.topic, partitions=[asked])]
    request = fe.FetchRequest(max_bytes=_MAX_BYTES, session_epoch=-1, topics=topics)
    answer = await caller.call(Request("Fetch", 12, request))
    [found] = answer.responses[0].partitions
    data = memoryview(found.records or b"")
    if found.error_code or (not data and found.high_watermark == 0):
        return {"fetch": found.error_code} if found.error_code else {}
    facts: Facts = {"end": found.high_watermark}
    facts["batches"] = [_batch(each, clock, sent) for each in _split(data)]
    facts["found"] = await _searched(case, caller, clock)
    return facts


def _split(data: memoryview) -> Iterator[memoryview]:
    while len(data) >= HEADER_BYTES:
        size = int.from_bytes(data[8:12], "big", signed=True) + LENGTH_OVERHEAD
        yield data[:size]
        data = data[size:]


def _batch(batch: memoryview, clock: Clock, sent: bytes) -> list[Any]:
    """Return a stored batch's header, whether its CRC is right, and its records.

    The records are "same" if their bytes are as sent; otherwise offset and time stamp of each.
    """
    header = read_header(batch)
    shown = [_field(name, getattr(header, name), clock) for name in _STORED]
    is_right = crc32c(batch[CRC_START:]) == header.crc
    return [header.base_offset, *shown, is_right, _records(header, batch, clock, sent)]


def _field(name: str, value: int, clock: Clock) -> int | str:
    return clock.show(value) if name.endswith("timestamp") else value


def _records(header: BatchHeader, batch: memoryview, clock: Clock, sent: bytes) -> Any:
    if bytes(batch[HEADER_BYTES:]) == sent[HEADER_BYTES:]:
        return "same"
    rows: list[Any] = []
    try:
        for each in decode_records(batch, max_decompressed_bytes=_MAX_BYTES):
            rows.append([each.offset, clock.show(each.timestamp)])
    except InvalidBatch as invalid:
        return f"unreadable: {invalid.reason.name}"
    return rows[:_SHOWN]


async def _searched(case: Case, caller: Caller, clock: Clock) -> list[Any]:
    requests = [_search(case, each) for each in clock.searched()]
    rows: list[Any] = []
    for answer in await caller.call_all(requests):
        found = answer.topics[0].partitions[0]
        if found.error_code:
            rows.append(f"error {found.error_code}")
        elif found.offset == -1:
            rows.append(-1)
        else:
            rows.append([found.offset, clock.show(found.timestamp)])
    return rows


def _search(case: Case, timestamp: int) -> Request:
    asked = lo.ListOffsetsPartition(case.partition, -1, timestamp)
    body = lo.ListOffsetsRequest(-1, 0, [lo.ListOffsetsTopic(case.topic, [asked])])
    return Request("ListOffsets", 7, body)
