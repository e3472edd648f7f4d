"""Readers of all partitions of `__consumer_offsets`, by the topic's name, like tools for lag."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import trio

from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import fetch
from tidegate_protocol.primitives import (
    read_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
)
from tidegate_protocol.records import Record, crc_matches, decode_records, walk

from ..invariants.offsets_checks import ReadRecord, RecordKey, RecordValue
from .client import Client, Disconnected, ProtocolBroken
from .workload import Workload

_VERSION: Final = 12
_REWIND_SHARE: Final = 0.1
_COMMIT, _GROUP = (0, 1), 2
_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")
# Errors after which a reader asks again, perhaps another gateway.
_PASSING: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})


class OffsetsReader:
    """Follows the topic from its beginning; now and then it goes back, or to another gateway.

    positions: by the number of the partition.  last: the last value of each key.
    """

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._watch = workload.world.watch
        self._max_bytes = self.client.rng.choice((1, 300, 1 << 20))
        self.positions: dict[int, int] = {}
        self.last: dict[RecordKey, RecordValue] = {}

    async def run(self) -> None:
        """Read until no operation is left."""
        rng = self.client.rng
        while self._workload.take():
            await self.poll(self._numbers())
            for number, position in self.positions.items():
                if rng.random() < _REWIND_SHARE:
                    self.positions[number] = rng.randint(self._workload.first_offset, position)
            await self.client.pause(2.0)
            if rng.random() < 0.2:
                self.client.close()
        self.client.close()

    async def read_all(self) -> None:
        """Read to the end, and have the last values judged; the caller sets a time limit."""
        while behind := self._behind():
            await self.poll(behind)
            await trio.lowlevel.checkpoint()
        if self._numbers():  # without the log, no gateway could create it
            self._watch.offsets.judge_all({key: each for key, each in self.last.items() if each})
        self.client.close()

    def _numbers(self) -> list[int]:
        return list(self._watch.state.offsets_topic.by_number)

    def _behind(self) -> list[int]:
        partitions = self._watch.state.partitions
        return [
            each for each in self._numbers() if self._position(each) < partitions[each].next_offset
        ]

    def _position(self, number: int) -> int:
        return self.positions.get(number, self._workload.first_offset)

    async def poll(self, numbers: list[int]) -> None:
        """Fetch once."""
        if not numbers:
            return
        topic = self._watch.state.topics.by_name[OFFSETS_TOPIC]
        index = {each: topic.partition_numbers.index(each) for each in numbers}
        wanted = [
            fetch.FetchPartition(
                index[each],
                fetch_offset=self._position(each),
                partition_max_bytes=self._max_bytes,
            )
            for each in numbers
        ]
        request = fetch.FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            session_epoch=-1,
            topics=[fetch.FetchTopic(OFFSETS_TOPIC, partitions=wanted)],
        )
        try:
            answer: fetch.FetchResponse = await self.client.call("Fetch", fetch, _VERSION, request)
        except Disconnected:
            await self.client.pause(1.0)
            return
        for part in answer.responses[0].partitions:
            self._take(topic.partition_numbers[part.partition_index], part)

    def _take(self, number: int, part: fetch.PartitionData) -> None:
        code = ErrorCode(part.error_code)
        if code in _PASSING:
            self.client.close()
        elif code:
            text = f"fetch of {OFFSETS_TOPIC}-{part.partition_index}: {code.name}"
            self.client.world.complain("false error", text)
        else:
            position = self._position(number)
            records, following = _records(part.records or b"", position)
            self._watch.offsets.judge(number, position, following, records)
            self.positions[number] = following
            self.last.update((each.key, each.value) for each in records)


def _records(data: Any, position: int) -> tuple[list[ReadRecord], int]:
    """Return the records from position on, and the next position."""
    view = memoryview(bytes(data))
    records: list[ReadRecord] = []
    for start, header in walk(view):
        if not crc_matches(view, start, header):
            raise ProtocolBroken(f"a batch at offset {header.base_offset} has a wrong CRC")
        if header.last_offset < position:
            raise ProtocolBroken(f"a batch ends at {header.last_offset}, before {position}")
        batch = view[start : start + header.size_bytes]
        for each in decode_records(batch, max_decompressed_bytes=1 << 20):
            if each.offset >= position:
                records.append(ReadRecord(each.offset, _key(each), _value(each)))
        position = header.last_offset + 1
    return records, position


def _kind(each: Record) -> int:
    kind: int = _INT16.unpack_from(each.key or b"\xff\xff")[0]
    return kind


def _key(each: Record) -> RecordKey:
    view = memoryview(each.key or b"")
    group, at = read_string(view, 2)
    if _kind(each) == _GROUP:
        return group, "", -1
    if _kind(each) not in _COMMIT:
        raise ProtocolBroken(f"a key of kind {_kind(each)}")
    topic, at = read_string(view, at)
    return group, topic, _INT32.unpack_from(view, at)[0]


def _value(each: Record) -> RecordValue:
    if each.value is None:
        return None
    view = memoryview(each.value)
    (version,) = _INT16.unpack_from(view)
    if _kind(each) == _GROUP:
        return _group(view) if version == 3 else (version,)
    offset, epoch = _INT64.unpack_from(view, 2)[0], _INT32.unpack_from(view, 10)[0]
    metadata, at = read_compact_string(view, 14)
    if version != 4 or skip_tags(view, at + 8) != len(view):
        raise ProtocolBroken(f"a commit of version {version}")
    return offset, epoch, metadata, _INT64.unpack_from(view, at)[0]


def _group(view: memoryview) -> RecordValue:
    protocol_type, at = read_string(view, 2)
    (generation,) = _INT32.unpack_from(view, at)
    protocol, at = read_nullable_string(view, at + 4)
    leader, at = read_nullable_string(view, at)
    (count,) = _INT32.unpack_from(view, at + 8)
    at += 12
    members: list[tuple[str, bytes]] = []
    for _ in range(count):
        member_id, at = read_string(view, at)
        for _ in range(3):  # instance id, client id, host
            _, at = read_nullable_string(view, at)
        _, at = _bytes(view, at + 8)
        assignment, at = _bytes(view, at)
        members.append((member_id, assignment))
    return protocol_type, generation, protocol, leader, tuple(members)


def _bytes(view: memoryview, at: int) -> tuple[bytes, int]:
    end = at + 4 + _INT32.unpack_from(view, at)[0]
    return bytes(view[at + 4 : end]), end
