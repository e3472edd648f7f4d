"""`__consumer_offsets` as clients read it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import trio
import trio.testing

from tests.fetch.test_fetch_waits import Later
from tests.fetch.test_list_offsets import ask
from tests.worlds.fetch_world import World, batches_of, fetch_world
from tidegate_coordination.events.cluster import Event
from tidegate_coordination.events.groups import (
    CommittedOffset,
    GroupChanged,
    GroupDeleted,
    MemberRecord,
    OffsetsCommitted,
)
from tidegate_coordination.rules.proposal import TOPICS, Decided, View
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC
from tidegate_coordination.state.records.epochs import EpochStart
from tidegate_coordination.state.records.partitions import Partition
from tidegate_gateway.fetch.offsets_records import OffsetsRecords
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tidegate_protocol.messages.list_offsets import ListOffsetsPartition
from tidegate_protocol.records import Record, decode_records, read_header

MEMBER = MemberRecord("m-1", None, "c", "/h", 2, 3, (("range", b"s"),), b"as")


@dataclass(frozen=True)
class Write:
    """Writes events as they are."""

    events: tuple[Event, ...]
    reads: frozenset[str] = frozenset({TOPICS})
    writes: frozenset[str] = frozenset({TOPICS})

    def decide(self, _: View) -> Decided[None]:
        return Decided(list(self.events), None)


async def write(world: World, *events: Event) -> None:
    await world.coordinator.propose(Write(events))


async def begin(world: World) -> bytes:
    await world.create(OFFSETS_TOPIC)
    return await world.create("orders")


def commit(topic_id: bytes, offset: int, group: str = "g", partition: int = 0) -> Event:
    return OffsetsCommitted(group, 0, (CommittedOffset(topic_id, partition, offset, 3, "note", 9),))


def read(data: PartitionData) -> list[Record]:
    assert data.error_code == 0
    return [
        record
        for each in batches_of(data)
        for record in decode_records(each, max_decompressed_bytes=1 << 20)
    ]


async def test_commits_and_groups_have_kafkas_bytes(autojump_clock: trio.testing.MockClock) -> None:
    """Golden bytes: Apache Kafka 4.3.1 wrote the same records, except for ids and times."""
    async with fetch_world() as [world]:
        topic_id = await begin(world)
        group = GroupChanged("g", 0, "consumer", 7, "range", "m-1", (MEMBER,))
        await write(world, group, commit(topic_id, 5))
        await write(world, GroupChanged("g", 0, "consumer", 8, None, None, ()))
        await write(world, GroupDeleted("g"))
        data = await world.fetch(OFFSETS_TOPIC, 0)
        changed = world.state.log_time_ms.to_bytes(8, "big")
    records = read(data)
    assert [each.offset for each in records] == [0, 1, 2, 3, 4]
    commit_key = b"\0\1\0\1g\0\6orders\0\0\0\0"
    group_key = b"\0\2\0\1g"
    keys = [each.key for each in records]
    assert keys == [group_key, commit_key, group_key, commit_key, group_key]
    assert (
        records[1].value
        == (b"\0\4" + (5).to_bytes(8, "big") + b"\0\0\0\3\5note" + (9).to_bytes(8, "big"))
        + b"\1\0\x10"
        + topic_id
    )
    member = b"\0\3m-1\xff\xff\0\1c\0\2/h\0\0\0\2\0\0\0\3\0\0\0\1s" + (b"\0\0\0\2as")
    head = b"\0\3\0\10consumer"
    assert records[0].value == head + b"\0\0\0\7\0\5range\0\3m-1" + changed + (b"\0\0\0\1" + member)
    assert records[2].value == head + b"\0\0\0\x08\xff\xff\xff\xff" + changed + bytes(4)
    assert [each.value for each in records[3:]] == [None, None]
    assert [each.timestamp for each in records[1:2]] == [9]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (5, 5, 0)


async def test_two_gateways_give_the_same_records_at_the_same_offsets(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [one, two]:
        topic_id = await begin(one)
        await two.coordinator.catch_up()
        for offset in range(20):
            await write((one, two)[offset % 2], commit(topic_id, offset, f"g{offset % 3}"))
        await one.coordinator.catch_up()
        for start in (0, 7, 19):
            both = [read(await each.fetch(OFFSETS_TOPIC, start)) for each in (one, two)]
            assert both[0] == both[1]
            assert [each.offset for each in both[0]] == list(range(start, 20))


async def test_a_waiting_fetch_wakes_at_a_commit_whatever_it_waits_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        topic_id = await begin(world)
        for min_bytes, expected in ((1, 1.0), (50, 1.0), (10_000, 5.0)):
            later = Later()
            end = world.partition(OFFSETS_TOPIC).next_offset
            async with trio.open_nursery() as nursery:
                fetch = world.fetch(OFFSETS_TOPIC, end, max_wait_ms=5_000, min_bytes=min_bytes)
                nursery.start_soon(later.run, fetch)
                await trio.sleep(1)
                await write(world, commit(topic_id, 1))
            assert later.answer is not None
            assert [each.offset for each in read(later.answer)] == [end]
            assert later.seconds == pytest.approx(expected)


async def test_a_reader_is_given_what_it_admits_and_no_hole(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        topic_id = await begin(world)
        for offset in range(40):
            await write(world, commit(topic_id, offset))
        offset, seen = 0, list[int]()
        while offset < 40:
            data = await world.fetch(OFFSETS_TOPIC, offset, partition_max=300)
            (batch,) = batches_of(data)
            assert len(batch) <= 300
            seen += [each.offset for each in read(data)]
            offset = read_header(batch).last_offset + 1
        assert seen == list(range(40))
        assert len(read(await world.fetch(OFFSETS_TOPIC, 3, partition_max=1))) == 1


async def test_one_look_makes_no_more_than_its_bound_and_does_not_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await world.create(OFFSETS_TOPIC, 2)
        topic_id = await world.create("orders")
        for group in ("a", "b"):  # each group's offsets are in one partition
            await write(world, *(commit(topic_id, 1, group, each) for each in range(3_000)))
        wanted = [FetchPartition(each, partition_max_bytes=1 << 20) for each in range(2)]
        request = FetchRequest(
            min_bytes=1 << 20,
            max_wait_ms=9_000,
            topics=[FetchTopic(OFFSETS_TOPIC, bytes(16), wanted)],
        )
        started = trio.current_time()
        answer = await world.ask(request)
        assert trio.current_time() == started
        counts = [len(read(each)) for each in answer.responses[0].partitions]
        assert 1_000 < counts[0] < 2_000
        assert sum(counts) < 2_000


async def test_a_reader_at_a_replaced_record_goes_on_with_the_next_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        topic_id = await begin(world)
        for offset in range(4_000):
            await write(world, commit(topic_id, offset))
        await write(world, commit(topic_id, 1, partition=1))
        data = await world.fetch(OFFSETS_TOPIC, 5)
        first = read(data)[0].offset
        assert first > 1_000
        await world.fetch(OFFSETS_TOPIC, 4_001, max_wait_ms=10)
        beyond = await world.fetch(OFFSETS_TOPIC, 4_002)
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_readers_of_committed_records_and_sessions_get_them_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        topic_id = await begin(world)
        await write(world, commit(topic_id, 5))
        data = await world.fetch(OFFSETS_TOPIC, 0, isolation_level=1)
        assert len(read(data)) == 1
        assert data.aborted_transactions == []


async def test_a_batch_has_one_leader_epoch(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world() as [world]:
        topic_id = await begin(world)
        for offset in range(6):
            await write(world, commit(topic_id, offset))
        world.partition(OFFSETS_TOPIC).epochs = (EpochStart(0, 0), EpochStart(4, 3))
        found: list[tuple[int, list[int]]] = []
        for offset in (0, 3):
            data = await world.fetch(OFFSETS_TOPIC, offset)
            (batch,) = batches_of(data)
            offsets = [each.offset for each in read(data)]
            found.append((read_header(batch).leader_epoch, offsets))
        assert found == [(0, [0, 1, 2]), (4, [3, 4, 5])]


async def test_list_offsets(autojump_clock: trio.testing.MockClock) -> None:
    async with fetch_world() as [world]:
        topic_id = await begin(world)
        assert await listed(world, -3) == (-1, -1)
        for at_ms in (10, 30, 20, 30):
            row = CommittedOffset(topic_id, at_ms, 5, -1, "", at_ms)
            await write(world, OffsetsCommitted("g", 0, (row,)))
        asked = (-3, -2, -1, 0, 11, 31)
        found = [await listed(world, each) for each in asked]
        assert found == [(1, 30), (0, -1), (4, -1), (0, 10), (1, 30), (-1, -1)]


async def listed(world: World, timestamp: int) -> tuple[int, int]:
    wanted = ListOffsetsPartition(0, timestamp=timestamp)
    (answer,) = await ask(world, wanted, topic=OFFSETS_TOPIC)
    assert answer.error_code == 0
    return answer.offset, answer.timestamp


def test_a_search_finds_nothing_once_the_topic_is_deleted() -> None:
    """Other tasks may run, and delete the topic, before ListOffsets searches."""
    records, partition = OffsetsRecords({}), Partition(5, bytes(16), 0)
    assert records.largest(partition) is None
    assert records.first_at(partition, 0) is None
