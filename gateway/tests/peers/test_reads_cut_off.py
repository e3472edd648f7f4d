"""A gateway that alone cannot read the object store sends its readers to other gateways."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.peers.test_store_cut_off import leaders, pair, ready
from tests.worlds.cluster.several_gateways import Running
from tests.worlds.wire_client import Closed, WireClient, records_batch
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import fetch as fe


async def fetch(client: WireClient, offset: int) -> tuple[int, bool]:
    partition = fe.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = fe.FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[fe.FetchTopic("t", partitions=[partition])],
    )
    answer: fe.FetchResponse = await client.call("Fetch", 12, request)
    [found] = answer.responses[0].partitions
    return found.error_code, bool(found.records)


async def test_readers_are_sent_away_if_reads_fail(autojump_clock: MockClock) -> None:
    async with pair() as found:
        other, client = found.two.world.connect(), found.one.world.connect()
        assert (await other.produce("t", 0, records_batch(b"a"))).error_code == E.NONE
        found.ways[0].refused.add("get")
        assert await fetch(client, 0) == (E.KAFKA_STORAGE_ERROR, False)
        await found.until(lambda: found.one.gateway.reads.store_way.is_cut_off)
        assert await fetch(client, 0) == (E.NOT_LEADER_OR_FOLLOWER, False)
        assert await leaders(client) == await leaders(other) == {2}
        assert await fetch(other, 0) == (E.NONE, True)
        answer = await client.produce("t", 0, records_batch(b"b"))
        assert answer.error_code == E.NOT_LEADER_OR_FOLLOWER
        found.ways[0].refused.clear()
        await found.until(lambda: not found.one.gateway.reads.store_way.is_cut_off)
        assert await fetch(client, 0) == (E.NONE, True)


async def write_always(running: Running, partition: int, codes: list[int]) -> None:
    """Write a record every 0.1 s; connect again whenever the connection is closed."""
    client = running.world.connect()
    while True:
        try:
            answer = await client.produce("t", partition, records_batch(b"x"))
            codes.append(answer.error_code)
        except Closed:
            client = running.world.connect()
        await trio.sleep(0.1)


async def test_readers_are_sent_away_though_the_gateway_writes_all_the_time(
    autojump_clock: MockClock,
) -> None:
    async with pair() as found, trio.open_nursery() as nursery:
        at_one, at_two = list[int](), list[int]()
        nursery.start_soon(write_always, found.one, 1, at_one)
        nursery.start_soon(write_always, found.two, 2, at_two)
        other, client = found.two.world.connect(), found.one.world.connect()
        assert (await other.produce("t", 0, records_batch(b"a"))).error_code == E.NONE
        found.ways[0].refused.add("get")
        assert await fetch(client, 0) == (E.KAFKA_STORAGE_ERROR, False)
        took = await found.until(lambda: found.one.gateway.reads.store_way.is_cut_off)
        assert took < 5
        await trio.sleep(1)
        assert at_one[-1] == E.NOT_LEADER_OR_FOLLOWER
        assert await fetch(client, 0) == (E.NOT_LEADER_OR_FOLLOWER, False)
        assert await leaders(client) == await leaders(other) == {2}
        assert (await ready(found.one))[0] == 503
        found.ways[0].refused.clear()
        await found.until(lambda: not found.one.gateway.reads.store_way.is_cut_off)
        await trio.sleep(1)
        assert at_one[-1] == E.NONE
        assert set(at_two) == {E.NONE}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seconds", [0.0, 100.0])
@pytest.mark.parametrize("is_second_busy", [True, False])
async def test_if_no_gateway_can_read_all_stay_leaders(
    autojump_clock: MockClock, seconds: float, is_second_busy: bool
) -> None:
    async with pair() as found, trio.open_nursery() as nursery:
        codes = list[int]()
        nursery.start_soon(write_always, found.one, 1, codes)
        if is_second_busy:
            nursery.start_soon(write_always, found.two, 2, codes)
        client = found.one.world.connect()
        answer = await found.two.world.connect().produce("t", 0, records_batch(b"a"))
        assert answer.error_code == E.NONE
        for way in found.ways:
            way.refused.add("get")
            way.refused_after_seconds = seconds
        assert await fetch(client, 0) == (E.KAFKA_STORAGE_ERROR, False)
        for _ in range(1000):
            await trio.sleep(0.1)
            for each in (found.one, found.two):
                assert not each.gateway.reads.store_way.is_cut_off
        assert len(codes) > 500  # writes may be held for 6 s a minute
        assert set(codes) == {E.NONE}
        nursery.cancel_scope.cancel()


async def test_one_object_that_cannot_be_read_cuts_no_gateway_off(
    autojump_clock: MockClock,
) -> None:
    async with pair() as found:
        other, client = found.two.world.connect(), found.one.world.connect()
        assert (await other.produce("t", 0, records_batch(b"a"))).error_code == E.NONE
        found.ways[0].refused.add("get_range")
        for _ in range(50):
            assert await fetch(client, 0) == (E.KAFKA_STORAGE_ERROR, False)
            await trio.sleep(0.2)
            assert not found.one.gateway.reads.store_way.is_cut_off
        assert await leaders(client) == {1, 2}
