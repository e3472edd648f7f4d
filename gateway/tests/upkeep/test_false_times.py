"""Batches whose header has a false largest time stamp, as those of kafka-go and older sarama.

They are kept as long as other records of their time, and are found by time.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.wire_client import NOW_MS, WireClient, WireWorld, wire_world
from tidegate_protocol.batches import read_header, with_header
from tidegate_protocol.compression import Codec
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.records import Record, build_batch

TIMES = (NOW_MS - 10_000, NOW_MS - 2_000, NOW_MS - 5_000)
RETENTION = {"retention_ms": "60000"}


def claiming(max_timestamp: int, codec: int) -> bytes:
    records = [Record(at, time_ms, b"k", b"v") for at, time_ms in enumerate(TIMES)]
    batch = build_batch(records, codec=codec)
    return bytes(
        with_header(memoryview(batch), read_header(batch)._replace(max_timestamp=max_timestamp))[0]
    )


async def offset_at(client: WireClient, timestamp: int) -> tuple[int, int]:
    part = lo.ListOffsetsPartition(0, timestamp=timestamp)
    request = lo.ListOffsetsRequest(-1, 0, [lo.ListOffsetsTopic("t", [part])])
    answer = (await client.call("ListOffsets", 7, request)).topics[0].partitions[0]
    assert answer.error_code == 0
    return answer.offset, answer.timestamp


async def after_housekeeping(world: WireWorld, seconds: float) -> int:
    """Let time pass, and run the housekeeper; return the log start offset."""
    await trio.sleep(seconds)
    await world.gateway.keepers.housekeeper.keep_house_once()
    return (await offset_at(world.connect(), -2))[0]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("claimed", [-1, 0, 1, 1000, TIMES[0], NOW_MS + (1 << 40)])
async def test_records_of_now_under_a_false_header_are_kept_and_found_by_time(
    claimed: int, codec: Codec, autojump_clock: MockClock
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1, **RETENTION)
        client = world.connect()
        assert (await client.produce("t", 0, claiming(claimed, codec))).error_code == 0
        assert await offset_at(client, NOW_MS - 6_000) == (1, NOW_MS - 2_000)
        assert await offset_at(client, -3) == (1, NOW_MS - 2_000)
        stored = read_header(await client.fetch_stored("t", 0, 0))
        assert stored.max_timestamp == NOW_MS - 2_000
        assert await after_housekeeping(world, 40) == 0
        # The records expire like others, by their largest time stamp.
        assert await after_housekeeping(world, 70) == 3


@pytest.mark.parametrize("claimed", [-1, 0, 1, 1000])
async def test_what_no_gateway_walked_is_kept_for_as_long_as_records_of_its_commit(
    claimed: int, autojump_clock: MockClock
) -> None:
    async with wire_world({"record.validation": "header"}) as world:
        await world.create_topic("t", 1, **RETENTION)
        client = world.connect()
        assert (await client.produce("t", 0, claiming(claimed, Codec.NONE))).error_code == 0
        assert await after_housekeeping(world, 40) == 0
        assert await after_housekeeping(world, 70) == 3


async def test_a_time_that_no_record_has_hides_no_newest_record(autojump_clock: MockClock) -> None:
    """As in Kafka, the newest record is found although a header promises a later one."""
    async with wire_world({"record.validation": "header"}) as world:
        await world.create_topic("t", 1, **RETENTION)
        client = world.connect()
        for claimed in (TIMES[1], NOW_MS + 1000, NOW_MS + 2000, TIMES[0]):
            assert (await client.produce("t", 0, claiming(claimed, Codec.NONE))).error_code == 0
        assert await offset_at(client, -3) == (1, NOW_MS - 2_000)
