"""If only one gateway does not reach the object store, it sends its clients to others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.app_world import pages_of
from tests.worlds.cluster.several_gateways import Clock, Cluster, Running, cluster
from tests.worlds.inline_pool import after
from tests.worlds.stores.refusing_store import RefusingStore
from tests.worlds.wire_client import (
    Closed,
    WireClient,
    produce_request,
    records_batch,
    request_frame,
)
from tidegate_gateway.upkeep.housekeeper import CLAIM
from tidegate_gateway.work.pools import inline_pools
from tidegate_protocol.compression import Codec
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.headers import decode_response_header
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import produce as pr


@dataclass(slots=True)
class Pair:
    """Two gateways, each with its own way to the store."""

    world: Cluster
    one: Running
    two: Running
    ways: list[RefusingStore]

    async def until(self, holds: Callable[[], bool], seconds: float = 10.0) -> float:
        """Wait until holds(); return how long that took."""
        began = trio.current_time()
        with trio.fail_after(seconds):
            while not holds():  # noqa: ASYNC110 - time makes it true
                await trio.sleep(0.05)
        return trio.current_time() - began


@asynccontextmanager
async def pair(seconds_in_threads: float = 0.0) -> AsyncIterator[Pair]:
    pools = inline_pools(after(partial(trio.sleep, seconds_in_threads)))
    async with cluster() as world:
        ways = [RefusingStore(world.store) for _ in range(2)]
        started = [
            await world.start(at, Clock(), store=way, pools=pools)
            for at, way in enumerate(ways, start=1)
        ]
        await started[0].world.create_topic("t", 4)
        await trio.sleep(1)
        yield Pair(world, started[0], started[1], ways)


def batch(number: int) -> bytes:
    value = b"%d" % number
    return records_batch(value, producer_id=7, producer_epoch=0, base_sequence=number)


async def leaders(client: WireClient) -> set[int]:
    request = md.MetadataRequest([md.MetadataRequestTopic(name="t")])
    answer = await client.call("Metadata", 9, request)
    assert {each.node_id for each in answer.brokers} == {1, 2}
    return {each.leader_id for each in answer.topics[0].partitions}


async def ready(running: Running) -> tuple[int, str]:
    answer = await pages_of(running.gateway).answer("GET", "/readyz")
    return answer.status, str(answer.body)


async def cut(found: Pair, *kinds: str) -> WireClient:
    """Refuse the first gateway's calls, wait until it is cut off, and return a client of it."""
    found.ways[0].refused |= set(kinds or ("put", "get", "list"))
    client = found.one.world.connect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.produce, "t", 0, batch(0))
        await found.until(lambda: found.one.gateway.reads.store_way.is_cut_off)
    return client


@pytest.mark.parametrize("is_busy", [False, True])
async def test_a_producer_that_waits_is_sent_to_the_other_gateway_within_5_seconds(
    autojump_clock: MockClock, is_busy: bool
) -> None:
    async with pair() as found, trio.open_nursery() as nursery:

        async def be_busy() -> None:
            client = found.two.world.connect()
            while is_busy:
                await client.produce("t", 1, records_batch(b"x"))
                await trio.sleep(0.2)

        nursery.start_soon(be_busy)
        await trio.sleep(1)
        found.ways[0].refused.add("put")
        client, began = found.one.world.connect(), trio.current_time()
        answer = await client.produce("t", 0, batch(0))
        assert answer.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert trio.current_time() - began < 5
        assert await leaders(client) == await leaders(found.two.world.connect()) == {2}
        assert await ready(found.one) == (
            503,
            "cut off from the object store; other gateways serve: put is refused\n",
        )
        assert (await ready(found.two))[0] == 200
        again = await found.two.world.connect().produce("t", 0, batch(0))
        assert (again.error_code, again.base_offset) == (E.NONE, 0)
        nursery.cancel_scope.cancel()


async def test_batches_in_flight_are_refused_and_written_once(
    autojump_clock: MockClock,
) -> None:
    async with pair() as found, trio.open_nursery() as nursery:
        client = found.one.world.connect()
        assert (await client.produce("t", 0, batch(0))).error_code == E.NONE
        found.ways[0].refused.add("put")
        codes: list[tuple[int, int]] = []

        async def send(number: int) -> None:
            answer = await found.one.world.connect().produce("t", 0, batch(number))
            codes.append((number, answer.error_code))

        for number in range(1, 6):
            nursery.start_soon(send, number)
            await trio.sleep(0.3)
        await found.until(lambda: len(codes) == 5)
        assert sorted(codes) == [(number, E.NOT_LEADER_OR_FOLLOWER) for number in range(1, 6)]
        found.ways[0].refused.clear()  # refused batches stay refused
        other = found.two.world.connect()
        for number in range(1, 6):
            assert (await other.produce("t", 0, batch(number))).error_code == E.NONE
        values = await other.fetch_values("t", 0, 0)
        assert values == [b"%d" % number for number in range(6)]


async def test_it_serves_again_once_a_small_put_succeeds(autojump_clock: MockClock) -> None:
    async with pair() as found:
        with capture_logs() as logged:
            client = await cut(found, "put")
            await trio.sleep(80)
            assert await leaders(client) == {2}
            # While it is cut off, the gateway writes no entries for abandoned objects.
            assert found.two.gateway.coordinator.state.objects.next_counter(1) <= 3
            found.ways[0].refused.clear()
            took = await found.until(lambda: not found.one.gateway.reads.store_way.is_cut_off)
            assert took < 1.5
            await trio.sleep(1)
        texts = [each["event"] for each in logged if "cut off from the object" in each["event"]]
        assert len(texts) == 2
        assert (await ready(found.one))[0] == 200
        for each in (found.one, found.two):
            assert await leaders(each.world.connect()) == {1, 2}
        with pytest.raises(Closed):  # a later batch must not be written after refused ones
            await client.produce("t", 0, batch(1))
        answer = await found.one.world.connect().produce("t", 0, batch(0))
        assert answer.error_code == E.NONE


async def test_a_batch_that_was_looked_at_meanwhile_does_not_overtake_a_refused_one(
    autojump_clock: MockClock,
) -> None:
    large = records_batch(
        Random(1).randbytes(20_000),
        codec=Codec.GZIP,
        producer_id=7,
        producer_epoch=0,
        base_sequence=1,
    )
    async with pair(seconds_in_threads=10.0) as found:
        found.ways[0].refused.add("put")
        client = found.one.world.connect()
        for each in (batch(0), large):
            await client.send(request_frame("Produce", 9, produce_request([("t", 0, each)])))
        await found.until(lambda: found.one.gateway.reads.store_way.is_cut_off)
        found.ways[0].refused.clear()
        await found.until(lambda: not found.one.gateway.reads.store_way.is_cut_off)
        await client.receive()  # the first batch is refused
        with pytest.raises(Closed):
            await client.receive()
        again = found.two.world.connect()
        answers = [await again.produce("t", 0, each) for each in (batch(0), large)]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 1)]


async def test_no_later_batch_is_taken_before_the_log_has_refused_earlier_ones(
    autojump_clock: MockClock,
) -> None:
    async with pair() as found:
        client, log = found.one.world.connect(), found.world.log
        found.ways[0].refused.add("put")
        await client.send(request_frame("Produce", 9, produce_request([("t", 0, batch(0))]), 1))
        await found.until(lambda: bool(found.one.gateway.writes.store_watch.avoided))
        log.is_away = log.is_silent = True
        await found.until(lambda: found.one.gateway.reads.store_way.is_cut_off)
        found.ways[0].refused.clear()
        await trio.sleep(1)
        await client.send(request_frame("Produce", 9, produce_request([("t", 0, batch(1))]), 2))
        await trio.sleep(0.5)
        log.is_away = False
        codes: list[int] = []
        for _ in range(2):
            answer = memoryview(await client.receive())
            _, position = decode_response_header(answer, 0, 9)
            response = pr.decode_response(answer[position:], 9)
            codes.append(response.responses[0].partition_responses[0].error_code)
        assert codes == [E.NOT_LEADER_OR_FOLLOWER] * 2
        await found.until(lambda: not found.one.gateway.reads.store_way.is_cut_off)


async def test_if_no_gateway_reaches_the_store_all_stay_leaders(autojump_clock: MockClock) -> None:
    async with pair() as found, trio.open_nursery() as nursery:
        codes: list[int] = []

        async def send(running: Running, number: int) -> None:
            answer = await running.world.connect().produce("t", number, records_batch(b"a"))
            codes.append(answer.error_code)

        for way in found.ways:
            way.refused.add("put")
        for at, each in enumerate((found.one, found.two)):
            nursery.start_soon(send, each, at)
        for _ in range(200):
            await trio.sleep(0.1)
            for each in (found.one, found.two):
                assert not each.gateway.reads.store_way.is_cut_off
                assert (await ready(each))[0] == 200
        for way in found.ways:
            way.refused.clear()
        await trio.sleep(3)
        assert codes == [E.NONE, E.NONE]
        assert not found.one.gateway.reads.store_way.is_cut_off
        assert not found.two.gateway.reads.store_way.is_cut_off
        for each in (found.one, found.two):
            assert await leaders(each.world.connect()) == {1, 2}


async def test_a_lone_gateway_waits_for_the_store(autojump_clock: MockClock) -> None:
    async with cluster() as world, trio.open_nursery() as nursery:
        way = RefusingStore(world.store)
        one = await world.start(1, Clock(), store=way)
        await one.world.create_topic("t", 1)
        way.refused.add("put")
        codes: list[int] = []

        async def send() -> None:
            answer = await one.world.connect().produce("t", 0, records_batch(b"a"))
            codes.append(answer.error_code)

        nursery.start_soon(send)
        await trio.sleep(20)
        assert (await ready(one))[0] == 200
        way.refused.clear()
        await trio.sleep(1)
        assert codes == [E.NONE]


async def test_it_leaves_the_housekeeping_to_others(autojump_clock: MockClock) -> None:
    async with pair() as found:
        keepers = [each.gateway.keepers.housekeeper for each in (found.one, found.two)]
        claims = found.two.gateway.coordinator.state.claims
        incarnations = [each.gateway.coordinator.incarnation for each in (found.one, found.two)]

        async def holder() -> int:
            for each in keepers:
                await each.keep_house_once()
            await trio.sleep(0.5)
            claim = claims.get(CLAIM)
            assert claim is not None
            return claim.incarnation

        assert await holder() == incarnations[0]
        await cut(found)
        assert await holder() == incarnations[1]
        assert await holder() == incarnations[1]


async def test_a_new_gateway_learns_which_one_does_not_reach_the_store(
    autojump_clock: MockClock,
) -> None:
    async with pair() as found:
        await cut(found)
        found.two.stop()
        third = await found.world.start(3, Clock())
        await trio.sleep(5)
        request = md.MetadataRequest([md.MetadataRequestTopic(name="t")])
        answer = await third.world.connect().call("Metadata", 9, request)
        assert 1 not in {each.leader_id for each in answer.topics[0].partitions}
