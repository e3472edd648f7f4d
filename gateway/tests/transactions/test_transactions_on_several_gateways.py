"""Transactions whose steps go to different gateways."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, Cluster, Running, cluster
from tests.worlds.transaction_client import COMMITTED, T, end, end_offset, init, write
from tidegate_coordination.events.metadata_versions import TRANSACTIONS
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import list_transactions as lt


async def three(world: Cluster) -> list[Running]:
    return [await world.start(number, Clock(), zone=f"az{number}") for number in (1, 2, 3)]


async def test_each_step_may_go_to_another_gateway(autojump_clock: MockClock) -> None:
    async with cluster({}) as world:
        gateways = await three(world)
        topic_id = await gateways[0].world.create_topic(T, 2)
        one, two, last = [each.world.connect() for each in gateways]
        producer = await init(one)
        assert await write(two, topic_id, producer, 0) == E.NONE
        assert await write(last, topic_id, producer, 0, partition=1) == E.NONE
        answers = [await end(each, producer) for each in (two, one, last)]
        assert {(each.error_code, each.producer_epoch) for each in answers} == {(E.NONE, 1)}
        assert [await end_offset(each, COMMITTED) for each in (one, two, last)] == [2, 2, 2]
        assert await write(one, topic_id, producer, 1) == E.INVALID_PRODUCER_EPOCH


async def test_tools_that_ask_all_gateways_see_each_id_once(autojump_clock: MockClock) -> None:
    async with cluster({}) as world:
        gateways = await three(world)
        names = [f"id-{number}" for number in range(30)]
        for number, name in enumerate(names):
            await init(gateways[number % 3].world.connect(), name)
        listed: list[list[str]] = []
        for each in gateways:
            answer = await each.world.connect().call(
                "ListTransactions", 0, lt.ListTransactionsRequest()
            )
            listed.append([row.transactional_id for row in answer.transaction_states])
        assert sorted(name for found in listed for name in found) == sorted(names)
        assert all(listed)


async def test_a_gateway_that_is_behind_looks_whether_transactions_are_refused(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients treat a refusal as fatal, but the cluster's level may just have been raised."""
    async with cluster({}) as world:
        one, two, _ = await three(world)
        topic_id = await one.world.create_topic(T, 1)
        producer = await init(one.world.connect())
        coordinator, version = two.gateway.coordinator, two.gateway.coordinator.state
        catch_up = coordinator.catch_up
        await catch_up()
        newest, version.metadata_version = version.metadata_version, TRANSACTIONS - 1

        async def raised() -> None:
            version.metadata_version = newest
            await catch_up()

        monkeypatch.setattr(coordinator, "catch_up", raised)
        assert await write(two.world.connect(), topic_id, producer, 0) == E.NONE


@pytest.mark.parametrize("drains", [False, True])
async def test_clients_are_sent_to_a_gateway_of_their_zone(
    drains: bool, autojump_clock: MockClock
) -> None:
    async with cluster({}) as world:
        gateways = await three(world)
        if drains:
            await gateways[1].drain()
        client = gateways[0].world.connect()
        client.client_id = "app;zone=az2"
        keys = [f"id-{number}" for number in range(20)]
        request = fc.FindCoordinatorRequest(key_type=1, coordinator_keys=keys)
        answer = await client.call("FindCoordinator", 4, request)
        nodes = {each.node_id for each in answer.coordinators}
        assert nodes == ({1, 3} if drains else {2})
        assert {each.error_code for each in answer.coordinators} == {E.NONE}
