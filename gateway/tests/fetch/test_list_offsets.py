"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.fetch_world import World, batch, fetch_world
from tidegate_coordination.log_contract.faulty import LogFaults
from tidegate_coordination.state.records.objects import WalName
from tidegate_gateway.migration.forward.source_ends import SourceEnds
from tidegate_gateway.network.call import Call, Peer
from tidegate_gateway.requests.records.list_offsets import ListOffsets
from tidegate_gateway.requests.records.offset_for_leader_epoch import OffsetForLeaderEpoch
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import list_offsets as codec
from tidegate_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidegate_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidegate_protocol.records import Record, build_batch

PEER = Peer("localhost", 1, "PLAINTEXT")


async def ask(
    world: World, *partitions: ListOffsetsPartition, version: int = 11, topic: str = "a"
) -> list[ListOffsetsPartitionResponse]:
    ends = SourceEnds(world.coordinator.state, {})
    handler = ListOffsets(
        world.coordinator, ends, world.reader, world.settings, inline_pools().records
    )
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, list(partitions))])
    response = await handler.handle(Call(version, "test", PEER), request)
    raw = codec.encode_response(response, version)
    return codec.decode_response(memoryview(bytes(raw)), version).topics[0].partitions


async def at(world: World, timestamp: int, *, partition: int = 0) -> tuple[int, int]:
    """Return the offset and time stamp that a search by time finds."""
    [answer] = await ask(world, ListOffsetsPartition(partition, timestamp=timestamp))
    assert answer.error_code == 0
    assert answer.leader_epoch == (0 if answer.offset >= 0 else -1)
    return answer.offset, answer.timestamp


def stamped(*timestamps: int, codec: int = 0) -> bytes:
    """A batch with one record for each time stamp."""
    records = [Record(at, timestamp, None, b"v") for at, timestamp in enumerate(timestamps)]
    return build_batch(records, codec=codec)


async def test_the_special_time_stamps() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        await world.write(("a", 0, stamped(10, 30, 20)), ("a", 0, stamped(30, 5)))
        await world.move_log_start("a", 0, 1)
        found = {special: await at(world, special) for special in range(-6, 0)}
        empty = {special: await at(world, special, partition=1) for special in (-3, -2, -1, 0)}

    assert found == {
        -1: (5, -1),
        -2: (1, -1),
        -3: (1, 30),
        -4: (1, -1),
        -5: (-1, -1),
        -6: (-1, -1),
    }
    assert empty == {-3: (-1, -1), -2: (0, -1), -1: (0, -1), 0: (-1, -1)}


@pytest.mark.parametrize("codec", [0, 1, 4])
async def test_by_time_is_exact_to_the_record(codec: int) -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, stamped(10, 20, 30, codec=codec)))
        await world.write(("a", 0, stamped(40, 60, 50, codec=codec)), ("a", 0, stamped(70)))
        found = {time: await at(world, time) for time in (0, 10, 11, 30, 31, 45, 61, 70, 71)}

    assert found == {
        0: (0, 10),
        10: (0, 10),
        11: (1, 20),
        30: (2, 30),
        31: (3, 40),
        45: (4, 60),
        61: (6, 70),
        70: (6, 70),
        71: (-1, -1),
    }


async def test_nothing_below_the_log_start_is_found() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, stamped(50, 90, 10, 20)), ("a", 0, stamped(60)))
        await world.write(("a", 0, stamped(80)))
        await world.move_log_start("a", 0, 2)
        found = {time: await at(world, time) for time in (0, 15, 30, 70, 85)}
        largest = await at(world, -3)
        await world.move_log_start("a", 0, 5)
        last = await at(world, -3)
        await world.move_log_start("a", 0, 6)
        none_left = await at(world, -3)

    assert found == {0: (2, 10), 15: (3, 20), 30: (4, 60), 70: (5, 80), 85: (-1, -1)}
    assert largest == (5, 80)
    assert last == (5, 80)
    assert none_left == (-1, -1)


async def test_the_largest_may_lie_in_what_is_left_of_the_first_batch() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, stamped(99, 30, 40, 40)), ("a", 0, stamped(35)))
        await world.write(("a", 0, stamped(40)))
        await world.move_log_start("a", 0, 1)

        assert await at(world, -3) == (2, 40)


async def test_with_log_append_time_the_first_record_answers() -> None:
    async with fetch_world() as [world]:
        await world.create("a", message_timestamp_type="LogAppendTime")
        [outcome] = await world.write(("a", 0, stamped(1, 2, 3)))
        await world.move_log_start("a", 0, 1)
        append_time = outcome.append_time_ms

        assert await at(world, 2) == (1, append_time)
        assert await at(world, append_time) == (1, append_time)
        assert await at(world, append_time + 1) == (-1, -1)
        assert await at(world, -3) == (1, append_time)


async def test_many_runs_are_scanned() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        for _ in range(1100):
            await world.write(("a", 0, stamped(5)))
        await world.write(("a", 0, stamped(7)))

        assert await at(world, 6) == (1100, 7)
        assert await at(world, -3) == (1100, 7)
        assert await at(world, 8) == (-1, -1)


async def test_a_batch_that_cannot_be_decoded_is_found_as_a_whole() -> None:
    lying = bytearray(stamped(10, 20))
    lying[-1] ^= 0xFF
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, stamped(1)), ("a", 0, _with_crc(lying)))

        assert await at(world, 15) == (1, 20)


def _with_crc(raw: bytearray) -> bytes:
    from crc32c import crc32c

    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    return bytes(raw)


async def test_errors_are_the_partitions_own() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 3)
        answers = await ask(
            world,
            ListOffsetsPartition(0, current_leader_epoch=1, timestamp=-1),
            ListOffsetsPartition(1, current_leader_epoch=0, timestamp=-1),
            ListOffsetsPartition(9, timestamp=-1),
            ListOffsetsPartition(2, timestamp=-1),
            ListOffsetsPartition(2, timestamp=-2),
        )
        [unknown] = await ask(world, ListOffsetsPartition(0, timestamp=-1), topic="b")

    assert [each.error_code for each in answers] == [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert [each.offset for each in answers] == [-1, 0, -1, -1, -1]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("timestamp", "since"), [(-1, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)]
)
async def test_time_stamps_that_a_version_does_not_know(timestamp: int, since: int) -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        for version in range(1, 12):
            [answer] = await ask(
                world, ListOffsetsPartition(0, timestamp=timestamp), version=version
            )
            expected = ErrorCode.NONE if version >= since else ErrorCode.UNSUPPORTED_VERSION
            assert answer.error_code == expected


async def test_latest_holds_what_another_gateway_acknowledged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [writer, behind]:
        behind.log.faults = LogFaults(lost_wakeup=1.0)
        await trio.sleep(1.5)  # now the watcher sleeps until second 2
        await writer.create("a")
        await writer.write(("a", 0, stamped(10)))
        assert "a" not in behind.state.topics.by_name
        latest = await at(behind, -1)
        await writer.write(("a", 0, stamped(20)))
        by_time = await at(behind, 15)

    assert latest == (1, -1)
    assert by_time == (1, 20)


async def test_list_offsets_answers_a_retriable_error_if_it_cannot_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        await world.write(("a", 0, stamped(10)))
        await world.write(("a", 1, stamped(10)))
        row = world.partition("a", 1).runs[0]
        world.store.damage(world.key(WalName(1, 1)), row.position + row.length - 1)
        [corrupt] = await ask(world, ListOffsetsPartition(1, timestamp=0))
        world.store.seconds = 1000.0
        [slow, quick] = await ask(
            world, ListOffsetsPartition(0, timestamp=0), ListOffsetsPartition(1, timestamp=-1)
        )
        world.log.faults = LogFaults(read_error=1.0)
        [unproven] = await ask(world, ListOffsetsPartition(0, timestamp=-1))

    assert corrupt.error_code == ErrorCode.CORRUPT_MESSAGE
    assert slow.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (quick.error_code, quick.offset) == (ErrorCode.NONE, 1)
    assert unproven.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_the_end_of_an_epoch() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0", "1")))
        handler = OffsetForLeaderEpoch(world.coordinator)
        asked = [(0, -1, 0), (0, 0, 0), (0, -1, 1), (0, 1, 0), (0, -2, 0), (7, -1, 0)]
        partitions = [OffsetForLeaderPartition(*each) for each in asked]
        response = await handler.handle(
            Call(4, "test", PEER),
            OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("a", partitions)]),
        )

    answers = response.topics[0].partitions
    assert [(each.error_code, each.leader_epoch, each.end_offset) for each in answers] == [
        (ErrorCode.NONE, 0, 2),
        (ErrorCode.NONE, 0, 2),
        (ErrorCode.NONE, -1, -1),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]
