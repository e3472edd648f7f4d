"""Readers that assign keys to themselves: by names or ids, with fetch sessions or without."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_records, fetch, list_offsets
from tidegate_protocol.records import InvalidBatch, crc_matches, decode_records, walk

from ..checks.history import Event
from ..checks.keyed import value_in
from .client import Client, Disconnected, ProtocolBroken
from .workload import Key, Workload

_IDS_FROM = 13
_STARTS_FROM = 5
_MAX_WAIT_MS = 500
_EARLIEST, _LATEST = -2, -1
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class UnknownTopic(Exception):
    """No topic has this name or id.  Unless a client deletes the topic, that is a gateway's bug."""


@dataclass(slots=True)
class _Session:
    """A fetch session (KIP-227).  told: the position of each key, as the gateway's session holds
    it.
    """

    session_id: int = 0
    epoch: int = 0
    told: dict[Key, int] = field(default_factory=dict[Key, int])

    def follow(self, session_id: int) -> None:
        """Take the sent positions over: the gateway answered without an error."""
        self.session_id = session_id
        self.epoch = self.epoch + 1 if session_id else 0


class Reader:
    """Reads keys from given positions, one Fetch after another."""

    isolation_level = 0

    def __init__(self, workload: Workload, name: str, *, sessions: bool | None = None) -> None:
        self.client = Client(workload.world, name)
        self.rng = self.client.rng
        self.workload = workload
        self.history = workload.world.history
        self.positions: dict[Key, int] = {}
        self.ends: dict[Key, int] = {}
        self.max_wait_ms = _MAX_WAIT_MS
        self.rack = self.client.zone
        self._version = self.rng.choice((4, 7, 11, 12, 13, 17))
        self._max_bytes = self.rng.choice((1, 150, 250, 400, 1 << 20))
        wants_session = self.rng.random() < 0.5 if sessions is None else sessions
        self._uses_sessions = wants_session and self._version >= 7
        self._session = _Session()

    @property
    def uses_ids(self) -> bool:
        """Return whether the reader names topics by their ids."""
        return self._version >= _IDS_FROM

    def assign(self, positions: dict[Key, int]) -> None:
        """Read these keys from now on."""
        self.positions = dict(positions)
        self._session = _Session()
        keys = [key.number for key in positions]
        self.history.note(self.client.name, "ok", "assign", {"keys": keys})

    async def run(self) -> None:
        """Read random keys from the start until no operation is left."""
        while self.workload.operations_left > 0:
            count = self.rng.randint(1, len(self.workload.keys))
            keys = sorted(self.rng.sample(self.workload.keys, count))
            self.assign({key: self._first_position(key) for key in keys})
            for _ in range(self.rng.randint(3, 30)):
                if not self.workload.take():
                    break
                await self.poll()
                await self.client.pause(1.0)
        self.client.close()

    def _first_position(self, key: Key) -> int:
        """Return the first offset, or an offset up to the farthest position so far."""
        first = self.workload.first_offset
        return self.rng.choice((first, first, self.rng.randint(first, self.ends.get(key, first))))

    async def poll(self) -> None:
        """Fetch once."""
        polls = {
            key: self.history.invoke(self.client.name, "poll", self._asked(key, position))
            for key, position in self.positions.items()
        }
        try:
            if not self.client.is_connected:
                self._session = _Session()
            response = await self.client.call(
                "Fetch",
                fetch,
                self._version,
                self._request(),
                timeout_seconds=20.0 + self.max_wait_ms / 1000,
            )
        except Disconnected:
            self._session = _Session()
            for invoke in polls.values():
                self.history.info(invoke)
            await self.client.pause(1.0)
            return
        await self._take(response, polls)

    def _asked(self, key: Key, position: int) -> dict[str, Any]:
        asked: dict[str, Any] = {"key": key.number, "position": position}
        if self.max_wait_ms != _MAX_WAIT_MS:
            asked["wait_ms"] = self.max_wait_ms
        if self.isolation_level:
            asked["committed"] = True
        return asked

    def _request(self) -> fetch.FetchRequest:
        session = self._session
        is_incremental = session.epoch > 0
        changed = {
            key: position
            for key, position in self.positions.items()
            if not is_incremental or session.told.get(key) != position
        }
        session.told = dict(self.positions)
        topics = [
            fetch.FetchTopic(
                key.topic,
                key.topic_id,
                [
                    fetch.FetchPartition(
                        key.partition, fetch_offset=position, partition_max_bytes=self._max_bytes
                    )
                ],
            )
            for key, position in changed.items()
        ]
        return fetch.FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session.session_id,
            session_epoch=session.epoch if self._uses_sessions else -1,
            isolation_level=self.isolation_level,
            topics=topics,
            rack_id=self.rack,
        )

    async def _take(self, response: fetch.FetchResponse, polls: dict[Key, Event]) -> None:
        if response.error_code:
            if ErrorCode(response.error_code) not in _SESSION_ERRORS:
                raise ProtocolBroken(f"Fetch: {ErrorCode(response.error_code).name}")
            self._session = _Session()
        elif self._uses_sessions:
            self._session.follow(response.session_id)
        link = self.client.link  # later requests in the loop may reconnect
        for topic in response.responses:
            for part in topic.partitions:
                key = self._key_of(topic, part.partition_index)
                invoke = polls.pop(key, None)
                if invoke is None:
                    raise ProtocolBroken(f"Fetch answers {key} twice")
                if self.is_valid():
                    await self._take_part(key, part, invoke, link)
                else:
                    self.history.info(invoke)
        for invoke in polls.values():
            self.history.info(invoke)

    def is_valid(self) -> bool:
        """Return whether this answer is valid for the keys."""
        return True

    def _key_of(self, topic: fetch.FetchableTopicResponse, index: int) -> Key:
        for key in self.positions:
            same = key.topic_id == topic.topic_id if self.uses_ids else key.topic == topic.topic
            if same and key.partition == index:
                return key
        name = topic.topic or topic.topic_id.hex()
        raise ProtocolBroken(f"Fetch answers {name}-{index}, which was not asked for")

    async def _take_part(
        self, key: Key, part: fetch.PartitionData, invoke: Event, link: int
    ) -> None:
        code = ErrorCode(part.error_code)
        if code != ErrorCode.NONE:
            self.history.fail(invoke, error=code.name)
            if code == ErrorCode.CORRUPT_MESSAGE and not self._may_be_corrupt(key):
                self.workload.world.complain("false error", f"fetch of {key}: {code.name}")
            if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                await self._turn_elsewhere()
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._reset(key)
            return
        if part.preferred_read_replica >= 0:
            self._move(key, part, invoke)
            return
        position = self.positions[key]
        try:
            records, following = self.records_of(part, position)
        except InvalidBatch as malformed:
            text = f"{self.client.name} cannot read {key} at {position}: {malformed}"
            self.workload.world.complain("malformed batch read", text)
            raise
        self.positions[key] = following
        self.took(key, records)
        self.ends[key] = part.high_watermark
        more = {"hw": part.high_watermark, "lso": part.last_stable_offset, "link": link}
        if self._version >= _STARTS_FROM:
            more["start"] = part.log_start_offset
        self.history.ok(invoke, records=records, next=following, **more)

    def records_of(
        self, part: fetch.PartitionData, position: int
    ) -> tuple[list[tuple[int, int]], int]:
        """Return (offset, value) of the records from position on, and the next position."""
        return _records(part.records or b"", position)

    def took(self, key: Key, records: list[tuple[int, int]]) -> None:
        """Take the records that were read, as (offset, value)."""

    def _move(self, key: Key, part: fetch.PartitionData, invoke: Event) -> None:
        """Connect to the gateway that the answer names; the answer itself carries no records."""
        if not self.rack or part.records:
            raise ProtocolBroken(f"{key} is to be read at {part.preferred_read_replica}")
        self.history.info(invoke)
        self.workload.world.strikes.count("zone.read_elsewhere")
        self.client.go_to(part.preferred_read_replica)
        self._session = _Session()

    def _may_be_corrupt(self, key: Key) -> bool:
        """Return whether the store has returned damaged bytes, as planned."""
        world: Any = self.workload.world
        if (key.topic_id, key.partition) in world.hurt.partitions:
            return True
        landed = world.strikes.landed if hasattr(world, "strikes") else world.landed
        return any(landed[each] for each in list(landed) if "flip" in each)

    async def _turn_elsewhere(self) -> None:
        """Choose another gateway, because this one drains."""
        self.client.close()
        self._session = _Session()
        await self.client.pause(0.5)

    async def _reset(self, key: Key) -> None:
        """Continue at the log start, as auto.offset.reset=earliest does."""
        start = await ask_low(self.client, key)
        if start is not None and start > self.positions[key]:
            self.positions[key] = start


def _records(data: Any, position: int) -> tuple[list[tuple[int, int]], int]:
    """Return (offset, value) of the records from position on, and the next position."""
    view = memoryview(bytes(data))
    records: list[tuple[int, int]] = []
    for start, header in walk(view):
        if not crc_matches(view, start, header):
            raise ProtocolBroken(f"a batch at offset {header.base_offset} has a wrong CRC")
        batch = view[start : start + header.size_bytes]
        for each in decode_records(batch, max_decompressed_bytes=1 << 20):
            if each.offset >= position and not header.is_control:
                records.append((each.offset, value_in(each)))
        position = max(position, header.base_offset + header.last_offset_delta + 1)
    return records, position


async def ask_low(client: Client, key: Key) -> int | None:
    """Ask for the log start, and write the answer into the history."""
    history = client.world.history
    invoke = history.invoke(client.name, "low", {"key": key.number})
    offset = await list_one(client, key, _EARLIEST)
    if offset is None:
        history.info(invoke)
    else:
        history.ok(invoke, offset=offset)
    return offset


async def list_one(client: Client, key: Key, timestamp: int) -> int | None:
    """Ask for an offset of one partition; None if there is no answer now.

    Raises:
      UnknownTopic: no topic has this name.
    """
    part = list_offsets.ListOffsetsPartition(key.partition, timestamp=timestamp)
    topic = list_offsets.ListOffsetsTopic(key.topic, [part])
    request = list_offsets.ListOffsetsRequest(-1, 0, [topic])
    try:
        response = await client.call("ListOffsets", list_offsets, 5, request)
    except Disconnected:
        return None
    answer = response.topics[0].partitions[0]
    if ErrorCode(answer.error_code) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(f"{key.topic}-{key.partition}")
    return None if answer.error_code else int(answer.offset)


class Admin:
    """Asks for end offsets, and now and then deletes records."""

    def __init__(self, workload: Workload, name: str, trim_share: float) -> None:
        self.client = Client(workload.world, name)
        self.workload = workload
        self.history = workload.world.history
        self._trim_share = trim_share

    async def run(self) -> None:
        """Ask until no operation is left."""
        rng = self.client.rng
        while self.workload.take():
            key = rng.choice(self.workload.keys)
            if rng.random() < self._trim_share:
                await self._trim(key)
            elif rng.random() < 0.3:
                await ask_low(self.client, key)
            else:
                await self._ask_end(key)
            await self.client.pause(3.0)
        self.client.close()

    async def _ask_end(self, key: Key) -> int | None:
        invoke = self.history.invoke(self.client.name, "end", {"key": key.number})
        offset = await list_one(self.client, key, _LATEST)
        if offset is None:
            self.history.info(invoke)
        else:
            self.history.ok(invoke, offset=offset)
        return offset

    async def _trim(self, key: Key) -> None:
        end = await self._ask_end(key)
        first = self.workload.first_offset
        if end is None or end <= first:
            return
        before = self.client.rng.randint(first + 1, end)
        value = {"key": key.number, "before": before}
        invoke = self.history.invoke(self.client.name, "trim", value)
        low = await delete_before(self.client, key, before)
        if low is None:
            self.history.info(invoke)
        else:
            self.history.ok(invoke, low=low)


async def delete_before(client: Client, key: Key, before: int) -> int | None:
    """Delete records; return the low watermark, or None if the outcome is unknown."""
    part = delete_records.DeleteRecordsPartition(key.partition, before)
    request = delete_records.DeleteRecordsRequest(
        [delete_records.DeleteRecordsTopic(key.topic, [part])], 30_000
    )
    try:
        response = await client.call("DeleteRecords", delete_records, 2, request)
    except Disconnected:
        return None
    answer = response.topics[0].partitions[0]
    return None if answer.error_code else int(answer.low_watermark)
