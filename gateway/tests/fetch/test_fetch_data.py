"""Fetch: which batches an answer has, where they come from, and within which limits."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.fetch_world import batch, batches_of, fetch_world, records_of
from tidegate_gateway.fetch.fetch_plan import FetchSettings
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidegate_protocol.records import crc_matches, read_header

BIG = "x" * 10_000


async def test_offsets_are_final_and_the_batch_is_whole() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0", "1")), ("a", 0, batch("2", "3", "4")))
        await world.write(("a", 0, batch("5")))

        from_start = await world.fetch("a", 0)
        inside = await world.fetch("a", 3)

    assert records_of(from_start) == [(offset, str(offset)) for offset in range(6)]
    assert (from_start.high_watermark, from_start.last_stable_offset) == (6, 6)
    assert from_start.log_start_offset == 0
    assert records_of(inside) == [(2, "2"), (3, "3"), (4, "4"), (5, "5")]
    for each in batches_of(from_start):
        header = read_header(each)
        assert crc_matches(memoryview(each), 0, header)
        assert header.leader_epoch == 0


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_by_name_or_id(version: int) -> None:
    async with fetch_world() as [world]:
        topic_id = await world.create("a")
        await world.write(("a", 0, batch("0")))
        wanted = FetchPartition(0, partition_max_bytes=1000)
        topic = FetchTopic("a", topic_id, [wanted])
        response = await world.ask(FetchRequest(min_bytes=1, topics=[topic]), version)

    [answer] = response.responses
    assert answer.topic_id == (topic_id if version >= 13 else bytes(16))
    assert answer.topic == ("a" if version < 13 else "")
    assert records_of(answer.partitions[0]) == [(0, "0")]
    assert answer.partitions[0].aborted_transactions is None
    assert answer.partitions[0].preferred_read_replica == -1


async def test_read_committed_lists_no_aborted_transactions() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        answer = await world.fetch("a", 0, isolation_level=1)

    assert answer.aborted_transactions == []
    assert records_of(answer) == [(0, "0")]


async def test_the_first_batch_passes_every_limit_and_the_next_does_not() -> None:
    async with fetch_world() as [world]:
        await world.create("a", 2)
        await world.write(*[("a", p, batch(BIG)) for p in (0, 0, 1)])
        one = await world.fetch("a", 0, partition_max=10)
        request = FetchRequest(
            min_bytes=1,
            max_bytes=10,
            topics=[
                FetchTopic(
                    "a", partitions=[FetchPartition(p, partition_max_bytes=10**6) for p in (0, 1)]
                )
            ],
        )
        both = await world.ask(request)

    assert [offset for offset, _ in records_of(one)] == [0]
    first, second = both.responses[0].partitions
    assert [offset for offset, _ in records_of(first)] == [0]
    assert records_of(second) == []
    assert (second.error_code, second.high_watermark) == (0, 1)


async def test_partition_limit_cuts_between_batches_and_not_within() -> None:
    size = len(batch(BIG))
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(*[("a", 0, batch(BIG))] * 3)
        await world.write(*[("a", 0, batch(BIG))] * 3)
        await world.fetch("a", 0, partition_max=size * 6)
        got = {
            limit: [o for o, _ in records_of(await world.fetch("a", 1, partition_max=limit))]
            for limit in (1, size * 2 - 1, size * 2, size * 3, size * 4 - 1, size * 9)
        }

    assert got == {
        1: [1],
        size * 2 - 1: [1],
        size * 2: [1, 2],
        size * 3: [1, 2, 3],
        size * 4 - 1: [1, 2, 3],
        size * 9: [1, 2, 3, 4, 5],
    }


async def test_records_in_memory_do_not_wait_for_records_in_the_store() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")))
        await world.fetch("a", 0)
        await world.write(("a", 0, batch("1")))
        enough = await world.fetch("a", 0)
        too_little = await world.fetch("a", 0, min_bytes=100)

    assert records_of(enough) == [(0, "0")]
    assert records_of(too_little) == [(0, "0"), (1, "1")]


async def test_the_brokers_own_cap_counts() -> None:
    settings = FetchSettings(max_bytes=len(batch(BIG)) * 2)
    async with fetch_world(settings) as [world]:
        await world.create("a")
        await world.write(*[("a", 0, batch(BIG))] * 4)
        answer = await world.fetch("a", 0)

    assert [offset for offset, _ in records_of(answer)] == [0, 1]


async def test_partitions_come_in_the_order_asked_and_share_the_budget() -> None:
    size = len(batch(BIG))
    async with fetch_world() as [world]:
        await world.create("a", 3)
        await world.write(*[("a", p, batch(BIG)) for p in (0, 1, 2) for _ in range(2)])
        partitions = [FetchPartition(p, partition_max_bytes=10**6) for p in (2, 0, 1)]
        request = FetchRequest(
            min_bytes=1, max_bytes=size * 3, topics=[FetchTopic("a", partitions=partitions)]
        )
        response = await world.ask(request)

    answers = response.responses[0].partitions
    assert [each.partition_index for each in answers] == [2, 0, 1]
    assert [len(records_of(each)) for each in answers] == [2, 1, 0]


async def test_own_objects_are_never_fetched_and_others_once() -> None:
    async with fetch_world(gateways=2) as [writer, other]:
        writer.adopts = True
        await writer.create("a", 2)
        await writer.write(("a", 0, batch("0")), ("a", 1, batch("0")))
        await other.coordinator.catch_up()
        for _ in range(2):
            assert records_of(await writer.fetch("a", 0)) == [(0, "0")]
        assert writer.store.reads == []
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(other.fetch, "a", 0)
        assert records_of(await other.fetch("a", 0)) == [(0, "0")]

    assert len(writer.store.reads) == 1
    assert (other.reader.reads.store_reads, writer.reader.reads.store_reads) == (1, 0)


async def test_a_refused_batch_between_two_runs_costs_no_second_get() -> None:
    twice = batch("once", producer_id=5, producer_epoch=0, base_sequence=0)
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(
            ("a", 0, batch("0")), ("a", 0, twice), ("a", 0, twice), ("a", 0, batch("2"))
        )
        answer = await world.fetch("a", 0)

    assert records_of(answer) == [(0, "0"), (1, "once"), (2, "2")]
    assert len(world.store.reads) == 1


async def test_partitions_that_lie_together_come_in_one_get() -> None:
    filler = "x" * 600_000
    async with fetch_world() as [world]:
        await world.create("a", 4)
        values = ("0", "1", filler, "3")
        await world.write(*[("a", p, batch(value)) for p, value in enumerate(values)])
        partitions = [FetchPartition(p, partition_max_bytes=10**6) for p in (3, 1, 0)]
        response = await world.ask(
            FetchRequest(min_bytes=1, topics=[FetchTopic("a", partitions=partitions)])
        )

    found = {each.partition_index: records_of(each) for each in response.responses[0].partitions}
    assert found == {0: [(0, "0")], 1: [(0, "1")], 3: [(0, "3")]}
    # Partition 2 lies between 1 and 3 in the object, and is too large to read along.
    assert len(world.store.reads) == 2


async def test_log_append_time_is_written_into_the_batch() -> None:
    async with fetch_world() as [world]:
        await world.create("a", message_timestamp_type="LogAppendTime")
        [outcome] = await world.write(("a", 0, batch("0", "1", timestamp=5)))
        answer = await world.fetch("a", 0)

    [found] = batches_of(answer)
    header = read_header(found)
    assert crc_matches(memoryview(found), 0, header)
    assert header.is_log_append_time
    assert header.max_timestamp == outcome.append_time_ms > 5


async def test_the_log_start_may_lie_inside_a_batch() -> None:
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0", "1", "2")))
        await world.move_log_start("a", 0, 2)
        answer = await world.fetch("a", 2)
        below = await world.fetch("a", 1)

    assert [offset for offset, _ in records_of(answer)] == [0, 1, 2]
    assert answer.log_start_offset == 2
    assert below.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (below.high_watermark, below.log_start_offset) == (3, 2)


@pytest.mark.parametrize("version", [4, 9, 10])
async def test_zstd_is_given_to_versions_before_it(version: int) -> None:
    """Since 4.0 Kafka checks no codec; kafka-python 2.0 asks with v4 and decompresses zstd."""
    async with fetch_world() as [world]:
        await world.create("a")
        await world.write(("a", 0, batch("0")), ("a", 0, batch("1", codec=4)))
        whole = await world.fetch("a", 0, version=version)
        behind = await world.fetch("a", 1, version=version)

    assert records_of(whole) == [(0, "0"), (1, "1")]
    assert records_of(behind) == [(1, "1")]
    assert (whole.error_code, behind.error_code) == (ErrorCode.NONE, ErrorCode.NONE)


async def test_many_cold_runs_are_read_together_within_bounds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    settings = FetchSettings(concurrent_reads=4, max_load_runs=8)
    async with fetch_world(settings) as [world]:
        await world.create("a", 2)
        for value in range(10):
            await world.write(("a", 0, batch(str(value))), ("a", 1, batch(str(value))))
        world.store.seconds = 1.0
        started = trio.current_time()
        answer = await world.fetch("a", 0)
        took = trio.current_time() - started

    assert [offset for offset, _ in records_of(answer)] == list(range(8))
    assert took == pytest.approx(2.0)


async def test_a_small_cache_still_serves() -> None:
    async with fetch_world(cache_bytes=1000) as [world]:
        await world.create("a")
        await world.write(("a", 0, batch(BIG)))
        assert len(records_of(await world.fetch("a", 0))) == 1
    assert world.cache.used_bytes == 0
