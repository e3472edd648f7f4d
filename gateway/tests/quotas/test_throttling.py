"""Clients above their quotas, at a whole gateway in memory; the clock is trio's mock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from outcome import capture
from trio.testing import MockClock

from tests.worlds.metrics_page import value_of
from tests.worlds.quotas.quota_world import connect_as, fetch_request, produce_frame, set_quota
from tests.worlds.wire_client import WireClient, produce_request, records_batch, wire_world
from tidegate_gateway.work.fair_pool import OnEnd
from tidegate_gateway.work.pools import inline_pools

BATCH = records_batch(bytes(10_000))
SIZE = len(produce_frame(BATCH, client_id="slow")) - 4
QUOTA = SIZE / 10.0  # so ten seconds admit one request


async def produce(client: WireClient, acks: int = -1) -> int:
    """Produce one batch; return the throttle time that the answer says."""
    answer = await client.call("Produce", 9, produce_request([("t", 0, BATCH)], acks=acks))
    assert answer.responses[0].partition_responses[0].error_code == 0
    found: int = answer.throttle_time_ms
    return found


async def test_produce_above_the_quota_is_throttled_as_kafka_calculates(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, producer_byte_rate=QUOTA // 1)
        client = connect_as(world, "slow")
        first = await produce(client)
        assert first == round(1_000 * 10 * (SIZE / 10 / (QUOTA // 1) - 1))
        begun = trio.current_time()
        second = await produce(client)
        # The client has sent what twenty seconds admit in a little more than ten seconds.
        assert 8_000 < second < 10_100
        third = await produce(client)
        assert trio.current_time() - begun >= second / 1_000
        assert third > 0


async def test_clients_without_a_quota_and_others_of_the_connection_go_on(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, producer_byte_rate=100)
        slow, free = connect_as(world, "slow"), connect_as(world, "free")
        assert await produce(slow) > 0
        begun = trio.current_time()
        for _ in range(5):
            assert await produce(free) == 0
        assert trio.current_time() - begun < 5
        with trio.move_on_after(60) as waited:
            await produce(slow)
        assert waited.cancelled_caught


async def test_what_was_received_goes_on_and_a_request_under_way_is_received_to_its_end(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, producer_byte_rate=100)
        client = connect_as(world, "slow")
        frames = [produce_frame(BATCH, number, client_id="slow") for number in range(4)]
        begun = trio.current_time()
        await client.send(frames[0] + frames[1] + frames[2][:5_000])
        for _ in range(2):
            await client.receive()
        await client.send(frames[2][5_000:] + frames[3])
        await client.receive()
        assert trio.current_time() - begun < 5
        with trio.move_on_after(60) as waited:
            await client.receive()
        assert waited.cancelled_caught


async def test_requests_without_answers_are_throttled_too(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"user": None}, producer_byte_rate=SIZE // 10)
        client = connect_as(world, "slow")
        for number in range(2):
            await client.send(produce_frame(BATCH, number, client_id="slow", acks=0))
        await client.call("ApiVersions", 2, None)
        begun = trio.current_time()
        await client.send(produce_frame(BATCH, 9, client_id="slow", acks=0))
        await trio.sleep(0.5)
        await client.call("ApiVersions", 2, None)
        assert trio.current_time() - begun > 5


async def test_a_quota_holds_from_the_moment_it_is_set_and_ends_with_it(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        admin, client = world.connect(), connect_as(world, "slow")
        for _ in range(3):
            assert await produce(client) == 0
        assert not any(each.peer.is_limited for each in world.gateway.connections)
        await set_quota(admin, {"client-id": "slow"}, producer_byte_rate=1_000)
        assert await produce(client) == round(SIZE - 10_000)
        await set_quota(admin, {"client-id": "slow"}, producer_byte_rate=None)
        assert await produce(client) == 0
        assert not any(each.peer.is_limited for each in world.gateway.connections)


async def test_a_fetch_above_the_quota_is_empty_and_its_session_goes_on(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, consumer_byte_rate=1_500)
        writer = world.connect()
        for _ in range(4):
            await produce(writer)
        client = connect_as(world, "slow")
        opened = await client.call("Fetch", 12, fetch_request(0, session_epoch=0))
        assert opened.throttle_time_ms == 0
        # Ten seconds admit 15,000 bytes, which is one batch of 10,000.
        assert len(opened.responses[0].partitions[0].records) == len(BATCH)
        session = opened.session_id
        begun = trio.current_time()
        empty = await client.call(
            "Fetch", 12, fetch_request(1, session_id=session, session_epoch=1)
        )
        assert empty.session_id == session
        assert not empty.responses
        assert empty.error_code == 0
        assert 0 < empty.throttle_time_ms < 10_000
        waits_ms, epoch, again = 0, 1, empty
        while not again.responses:
            waits_ms += again.throttle_time_ms
            epoch += 1
            again = await client.call(
                "Fetch", 12, fetch_request(1, session_id=session, session_epoch=epoch)
            )
        assert 10 < trio.current_time() - begun < 14  # the first batch has left the windows
        assert trio.current_time() - begun >= waits_ms / 1_000
        assert again.throttle_time_ms == 0
        assert len(again.responses[0].partitions[0].records) == len(BATCH)


async def test_a_batch_above_ten_seconds_of_quota_is_fetched_all_the_same(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, consumer_byte_rate=500)
        writer, client = world.connect(), connect_as(world, "slow")
        for _ in range(2):
            await produce(writer)
        begun = trio.current_time()
        offset = 0
        while offset < 2:
            answer = await client.call("Fetch", 12, fetch_request(offset))
            offset += sum(
                bool(part.records) for topic in answer.responses for part in topic.partitions
            )
            assert trio.current_time() - begun < 100
        assert trio.current_time() - begun > 10


async def test_draining_ends_throttles(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, producer_byte_rate=1)
        client = connect_as(world, "slow")
        assert await produce(client) > 1_000_000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.gateway.drain)
            begun = trio.current_time()
            answer = await client.call("ApiVersions", 2, None)
            assert answer.error_code == 0
            assert answer.throttle_time_ms == 0
            assert trio.current_time() - begun < 5
            nursery.cancel_scope.cancel()


async def test_a_client_that_goes_while_it_is_muted_leaves_nothing(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, producer_byte_rate=1)
        client = connect_as(world, "slow")
        await produce(client)
        count = len(world.gateway.connections)
        client.transport.close()
        await trio.sleep(3)
        assert len(world.gateway.connections) == count - 1


async def test_the_time_of_requests_is_a_quota_of_at_most_one_window(
    autojump_clock: MockClock,
) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        seconds = iter(range(0, 10_000, 5))  # the clock advances five seconds at each call
        world.gateway.limits.throttling.step_time = lambda: float(next(seconds))
        await set_quota(world.connect(), {"user": "ANONYMOUS"}, request_percentage=1)
        client = connect_as(world, "slow")
        answer = await client.call("ApiVersions", 2, None)
        assert answer.throttle_time_ms == 1_000
        empty = await client.call("Fetch", 12, fetch_request(0))
        assert empty.throttle_time_ms == 1_000
        assert not empty.responses
        assert await produce(client) == 1_000


async def test_metrics_show_who_is_throttled(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": None}, producer_byte_rate=500)
        throttle_ms = await produce(connect_as(world, "slow"))
        await produce(connect_as(world, "free"))
        labels = {"resource": "Produce", "user": "", "clientId": "slow"}
        rate, throttle = "kafka_server_quota_byte_rate", "kafka_server_quota_throttle_time"
        assert value_of(world.gateway, rate, **labels) == SIZE / 10
        assert value_of(world.gateway, throttle, **labels) == throttle_ms
        assert value_of(world.gateway, rate, **labels | {"clientId": "free"}) > 0


async def test_requests_of_a_client_with_a_quota_are_received_one_at_a_time(
    autojump_clock: MockClock,
) -> None:
    """Otherwise a client that sends many requests at once would exceed its quota by far."""
    async with wire_world() as world:
        await world.create_topic("t", 1)
        await set_quota(world.connect(), {"client-id": "slow"}, producer_byte_rate=SIZE)
        client = connect_as(world, "slow")
        await client.call("ApiVersions", 2, None)
        count = 150
        async with trio.open_nursery() as nursery:
            frames = b"".join(
                produce_frame(BATCH, number, client_id="slow") for number in range(count)
            )
            nursery.start_soon(client.send, frames)
            begun = trio.current_time()
            for _ in range(count):
                await client.receive()
        seconds = trio.current_time() - begun
        assert 0.95 < count / (seconds + 10) < 1.05


def for_two_seconds(work: Callable[[], Any], on_end: OnEnd) -> None:
    """Work as a thread that needs two seconds of processor time."""
    on_end(capture(work), 2.0)


async def test_request_time_counts_the_time_of_threads(autojump_clock: MockClock) -> None:
    async with wire_world(pools=inline_pools(for_two_seconds)) as world:
        await world.create_topic("packed", 1, compression_type="gzip")
        await set_quota(world.connect(), {"client-id": "slow"}, request_percentage=10)
        request = produce_request([("packed", 0, BATCH)])
        answer = await connect_as(world, "slow").call("Produce", 9, request)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms == 1_000
        assert (await world.connect().call("Produce", 9, request)).throttle_time_ms == 0
