"""Whole gateways in memory that share quotas; the clock is trio's mock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from trio.testing import MockClock

from tests.worlds.cluster.peer_network import Network
from tests.worlds.cluster.several_gateways import Clock, Cluster, Running, cluster
from tests.worlds.metrics_page import families
from tests.worlds.quotas.quota_world import connect_as, fetch_request, set_quota
from tests.worlds.wire_client import WireClient, produce_request, records_batch
from tidegate_gateway.quotas.sharing.messages import key_of
from tidegate_protocol.messages import create_topics as ct

BATCH = records_batch(bytes(1_000))
QUOTA = 2_000
KEY = key_of("Produce", "", "slow")
SHARED = {"quota.scope": "cluster"}


@asynccontextmanager
async def sharing(count: int) -> AsyncIterator[tuple[Cluster, list[Running]]]:
    """Run gateways that share quotas, with a topic "t"."""
    async with cluster(dict(SHARED)) as world, trio.open_nursery() as nursery:
        world.network = Network(nursery)
        gateways = [await world.start(number, Clock()) for number in range(1, count + 1)]
        await gateways[0].world.create_topic("t", 1)
        await trio.sleep(5)
        yield world, gateways
        nursery.cancel_scope.cancel()


async def push(client: WireClient, sent: list[float]) -> None:
    """Produce as fast as the gateway lets it."""
    while True:
        answer = await client.call("Produce", 9, produce_request([("t", 0, BATCH)]))
        assert answer.responses[0].partition_responses[0].error_code == 0
        sent.append(trio.current_time())


def rate(sent: list[float], since: float) -> float:
    """Return the byte rate of requests after `since`, divided by the quota."""
    return sum(each > since for each in sent) * 1_060 / (trio.current_time() - since) / QUOTA


def shown(gateway: Running, resource: str = "Produce") -> float:
    """Return the share that the metrics show."""
    found = families(gateway.gateway)["tidegate_quota_share"]
    return next(each.value for each in found.samples if each.labels["resource"] == resource)


async def test_clients_of_two_gateways_get_the_quota_once(autojump_clock: MockClock) -> None:
    async with sharing(3) as (_, gateways), trio.open_nursery() as nursery:
        await set_quota(
            gateways[0].world.connect(), {"client-id": "slow"}, producer_byte_rate=QUOTA
        )
        await trio.sleep(1)
        sent: list[float] = []
        for each in gateways[:2]:
            nursery.start_soon(push, connect_as(each.world, "slow"), sent)
        await trio.sleep(20)
        since = trio.current_time()
        await trio.sleep(60)
        assert 0.9 < rate(sent, since) < 1.1
        assert 0.98 * QUOTA < shown(gateways[0]) + shown(gateways[1]) <= QUOTA
        asked = [each.gateway.limits.share_exchange for each in gateways]
        assert asked[2] is not None
        assert asked[2].asked == 0
        nursery.cancel_scope.cancel()


async def test_a_gateway_whose_owner_is_silent_goes_on_with_an_even_share(
    autojump_clock: MockClock,
) -> None:
    async with sharing(2) as (world, gateways), trio.open_nursery() as nursery:
        assert world.network is not None
        await set_quota(
            gateways[0].world.connect(), {"client-id": "slow"}, producer_byte_rate=QUOTA
        )
        await trio.sleep(1)
        owner = gateways[0].gateway.limits.quota_shares.membership.owner(KEY)
        [other] = [each for each in gateways if each.gateway.coordinator.incarnation != owner]
        sent: list[float] = []
        nursery.start_soon(push, connect_as(other.world, "slow"), sent)
        await trio.sleep(20)
        assert shown(other) > 0.98 * QUOTA
        world.network.silent |= {f"node{each.gateway.identity.node_id}" for each in gateways}
        await trio.sleep(5)
        assert shown(other) == QUOTA / 2
        since = trio.current_time()
        await trio.sleep(60)
        assert 0.45 < rate(sent, since) < 0.55
        exchange = other.gateway.limits.share_exchange
        assert exchange is not None
        assert exchange.unanswered > 100
        nursery.cancel_scope.cancel()


async def test_consumers_at_the_end_of_a_topic_ask_for_no_share(
    autojump_clock: MockClock,
) -> None:
    async with sharing(2) as (_, gateways):
        admin = gateways[0].world.connect()
        await set_quota(admin, {"client-id": "slow"}, consumer_byte_rate=1_000)
        await trio.sleep(1)
        for each in gateways:
            client = connect_as(each.world, "slow")
            for _ in range(5):
                answer = await client.call("Fetch", 12, fetch_request(0, max_bytes=1_500))
                assert answer.throttle_time_ms == 0
                assert not each.gateway.limits.quota_shares.active


async def test_fetches_and_mutations_are_shared_too(autojump_clock: MockClock) -> None:
    async with sharing(2) as (_, gateways):
        admin = gateways[0].world.connect()
        for _ in range(40):
            await admin.produce("t", 0, BATCH)
        await set_quota(
            admin, {"client-id": "slow"}, consumer_byte_rate=1_000, controller_mutation_rate=1
        )
        await trio.sleep(1)
        first, second = (connect_as(each.world, "slow") for each in gateways)
        got, begun = 0, trio.current_time()
        while trio.current_time() < begun + 60:
            for client in (first, second):
                answer = await client.call("Fetch", 12, fetch_request(0, max_bytes=1_500))
                got += sum(
                    len(part.records or b"")
                    for topic in answer.responses
                    for part in topic.partitions
                )
        seconds = trio.current_time() - begun
        assert 0.9 * 1_000 * seconds < got < 1.1 * 1_000 * (seconds + 10)
        created, begun = 0, trio.current_time()
        for number in range(60):
            for at, client in enumerate((first, second)):
                topic = ct.CreatableTopic(f"n-{at}-{number}", 1, 1)
                answer = await client.call(
                    "CreateTopics", 7, ct.CreateTopicsRequest([topic], 30_000)
                )
                created += answer.topics[0].error_code == 0
        seconds = trio.current_time() - begun
        # Tokens of eleven seconds can be saved up.
        assert 0.9 * seconds < created < 1.1 * (seconds + 11)


async def test_an_infinite_quota_limits_nothing_and_is_not_asked_for(
    autojump_clock: MockClock,
) -> None:
    async with sharing(1) as (_, [gateway]):
        admin = gateway.world.connect()
        forever = float("inf")
        await set_quota(admin, {"client-id": "fast"}, controller_mutation_rate=forever)
        await set_quota(admin, {"client-id": None}, controller_mutation_rate=1e-6)
        client = connect_as(gateway.world, "fast")
        for number in range(3):
            topic = ct.CreatableTopic(f"n-{number}", 50, 1)
            answer = await client.call("CreateTopics", 7, ct.CreateTopicsRequest([topic], 30_000))
            assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
        assert not gateway.gateway.limits.quota_shares.active


async def test_request_time_is_each_gateways_own(autojump_clock: MockClock) -> None:
    async with sharing(2) as (_, gateways):
        await set_quota(gateways[0].world.connect(), {"client-id": "slow"}, request_percentage=50)
        client = connect_as(gateways[0].world, "slow")
        for _ in range(3):
            await client.call("ApiVersions", 2, None)
        resources = {
            each.labels["resource"]
            for family in families(gateways[0].gateway).values()
            if family.name == "tidegate_quota_share"
            for each in family.samples
        }
        assert not resources
        assert not gateways[0].gateway.limits.quota_shares.active


async def test_one_gateway_alone_has_the_whole_quota(autojump_clock: MockClock) -> None:
    async with sharing(1) as (_, [gateway]), trio.open_nursery() as nursery:
        await set_quota(gateway.world.connect(), {"client-id": "slow"}, producer_byte_rate=QUOTA)
        sent: list[float] = []
        nursery.start_soon(push, connect_as(gateway.world, "slow"), sent)
        await trio.sleep(20)
        since = trio.current_time()
        await trio.sleep(30)
        assert 0.9 < rate(sent, since) < 1.1
        nursery.cancel_scope.cancel()


async def test_a_gateway_that_was_not_told_takes_an_even_share_of_a_shared_quota(
    autojump_clock: MockClock,
) -> None:
    async with sharing(1) as (world, [sharer]):
        world.settings.clear()
        other = await world.start(2, Clock())
        await trio.sleep(2)
        assert other.gateway.limits.quotas.are_shared
        await set_quota(sharer.world.connect(), {"client-id": "slow"}, producer_byte_rate=QUOTA)
        await trio.sleep(1)
        await connect_as(other.world, "slow").call("Produce", 9, produce_request([("t", 0, BATCH)]))
        assert shown(other) == QUOTA / 2
        assert other.gateway.limits.share_exchange is None
        await sharer.drain()
        await trio.sleep(2)
        assert not other.gateway.limits.quotas.are_shared
