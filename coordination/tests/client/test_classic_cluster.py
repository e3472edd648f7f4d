"""A classic cluster of scripted brokers: bootstrap, leaders, repeats."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.scripted_broker import PROPERTIES, Asked, ScriptedCluster
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import (
    AnotherCluster,
    AuthenticationFailed,
    BrokerUnreachable,
    Disconnected,
    Unsupported,
)
from tidegate_coordination.client.properties.client import Address, ClientProperties
from tidegate_coordination.client.properties.jaas import SaslCredentials
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import produce as pr
from tidegate_protocol.messages import sasl_authenticate as sa
from tidegate_protocol.messages import sasl_handshake as sh
from tidegate_runtime.secret import Secret

BOOTSTRAP = replace(
    PROPERTIES, bootstrap_servers=(Address("broker-1", 9092), Address("broker-9", 9092))
)


@asynccontextmanager
async def clustered(
    properties: ClientProperties = BOOTSTRAP, *, seed: int = 1
) -> AsyncIterator[tuple[ScriptedCluster, ClassicCluster]]:
    async with trio.open_nursery() as nursery:
        brokers = ScriptedCluster(nursery)
        yield brokers, ClassicCluster(nursery, brokers.dial, properties, rng=Random(seed))
        nursery.cancel_scope.cancel()


def list_offsets(partition: int = 0) -> lo.ListOffsetsRequest:
    row = lo.ListOffsetsPartition(partition, timestamp=-1)
    return lo.ListOffsetsRequest(-1, topics=[lo.ListOffsetsTopic("orders", [row])])


def listed(code: int = 0) -> lo.ListOffsetsResponse:
    row = lo.ListOffsetsPartitionResponse(0, code, offset=42)
    return lo.ListOffsetsResponse(topics=[lo.ListOffsetsTopicResponse("orders", [row])])


def produced(code: int = 0) -> pr.ProduceResponse:
    row = pr.PartitionProduceResponse(0, code)
    return pr.ProduceResponse([pr.TopicProduceResponse("orders", partition_responses=[row])])


def code_of(response: Any) -> int:
    code: int = response.topics[0].partitions[0].error_code
    return code


def answered_by(brokers: ScriptedCluster, name: str) -> list[int]:
    """Return the brokers that got the request, one item for each request."""
    return [
        number
        for number, broker in brokers.brokers.items()
        for _ in range(broker.names_asked().count(name))
    ]


# -- metadata -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
async def test_any_bootstrap_server_will_do(seed: int, autojump_clock: MockClock) -> None:
    async with clustered(seed=seed) as (_, cluster):
        known = await cluster.refresh()
        assert known is cluster.metadata
        assert (known.cluster_id, known.controller_id) == ("cluster-a", 2)
        assert sorted(known.brokers) == [1, 2, 3]
        leaders = [each.leader_id for each in known.topics["orders"].partitions.values()]
        assert leaders == [1, 2, 3]


async def test_metadata_creates_no_topic(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):
        known = await cluster.refresh(["missing"])
        [asked] = [each for each in brokers.brokers[1].asked if each.name == "Metadata"]
        assert not asked.request.allow_auto_topic_creation
        assert known.topics["missing"].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        assert "orders" not in known.topics


async def test_a_cluster_that_is_down_is_asked_again_for_a_bounded_time(
    autojump_clock: MockClock,
) -> None:
    async with clustered() as (brokers, cluster):
        brokers.brokers[1].is_up = False
        with pytest.raises(BrokerUnreachable, match="cannot be reached"):
            await cluster.refresh()
        assert 58 < trio.current_time() <= 60
        assert 55 < brokers.dialled.count("broker-1") < 80


async def test_a_cluster_that_comes_up_is_found(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster), trio.open_nursery() as nursery:
        brokers.brokers[1].is_up = False

        async def start() -> None:
            await trio.sleep(20)
            brokers.brokers[1].is_up = True

        nursery.start_soon(start)
        await cluster.refresh()
        assert 20 <= trio.current_time() < 23


async def test_known_brokers_are_found_again_through_the_bootstrap(
    autojump_clock: MockClock,
) -> None:
    async with clustered() as (brokers, cluster):
        brokers.hosts = dict.fromkeys((1, 2, 3), "broker-8")  # addresses that do not answer
        await cluster.refresh()
        brokers.hosts = {number: f"broker-{number}" for number in (1, 2, 3)}
        known = await cluster.refresh()
        assert str(known.brokers[2].address) == "broker-2:9092"


async def test_another_cluster_behind_the_addresses_is_refused(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):
        await cluster.refresh()
        brokers.cluster_id = "cluster-b"
        with pytest.raises(AnotherCluster, match="cluster-b"):
            await cluster.refresh()
        assert cluster.metadata.cluster_id == "cluster-a"
        assert trio.current_time() == 0


async def test_a_refused_password_is_not_tried_again(autojump_clock: MockClock) -> None:
    async def refuse(host: str, port: int) -> trio.abc.Stream:
        dialled.append(host)
        raise AuthenticationFailed("wrong")

    dialled: list[str] = []
    async with trio.open_nursery() as nursery:
        cluster = ClassicCluster(nursery, refuse, BOOTSTRAP, rng=Random(1))
        with pytest.raises(AuthenticationFailed):
            await cluster.refresh()
    assert len(dialled) == 1


async def test_old_brokers_are_understood(autojump_clock: MockClock) -> None:
    """Kafka 2.1: no topic ids, no tagged fields."""
    async with clustered() as (brokers, cluster):
        for each in brokers.brokers.values():
            each.versions = {"ApiVersions": (0, 2), "Metadata": (0, 7), "ListOffsets": (0, 4)}
            each.answers["ListOffsets"] = lambda _: listed()
        answer = await cluster.call_leader("orders", 1, "ListOffsets", list_offsets(1))
        assert code_of(answer) == 0
        assert cluster.metadata.topics["orders"].topic_id is None
        with pytest.raises(Unsupported, match="does not serve DescribeProducers"):
            await cluster.call_any("DescribeProducers", None)


# -- connections ----------------------------------------------------------------------------------


async def test_a_broker_gets_one_connection_for_all_calls(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):
        brokers.brokers[2].answers["ListOffsets"] = lambda _: listed()
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(cluster.call_leader, "orders", 1, "ListOffsets", list_offsets(1))
        assert brokers.brokers[2].connections == 1
        assert answered_by(brokers, "ListOffsets") == [2] * 10


async def test_callers_share_a_connection_that_cannot_be_opened(
    autojump_clock: MockClock,
) -> None:
    async with clustered() as (brokers, cluster):
        await cluster.refresh()
        brokers.brokers[2].answers["ApiVersions"] = lambda _: None

        async def fail() -> None:
            with pytest.raises(BrokerUnreachable, match="within 10 s"):
                await cluster.connection(2)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(fail)
        assert trio.current_time() == 10
        assert brokers.brokers[2].connections == 1


async def test_a_caller_that_is_cancelled_leaves_the_opening_to_others(
    autojump_clock: MockClock,
) -> None:
    async with clustered() as (brokers, cluster), trio.open_nursery() as nursery:
        await cluster.refresh()

        async def late_once(asked: Asked) -> Any:
            if asked.connection == 1:
                await trio.sleep(5)
            return brokers.brokers[2].announced()

        brokers.brokers[2].answers["ApiVersions"] = late_once

        async def cancelled() -> None:
            with trio.move_on_after(1):
                await cluster.connection(2)

        nursery.start_soon(cancelled)
        await trio.testing.wait_all_tasks_blocked()
        assert (await cluster.connection(2)).is_open
        assert trio.current_time() == 1


async def test_a_name_gets_a_connection_of_its_own(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):
        await cluster.refresh()
        hot = await cluster.connection(2, "hot")
        cold = await cluster.connection(2, "cold")
        assert hot is not cold
        assert await cluster.connection(2, "hot") is hot
        assert brokers.brokers[2].connections == 2
        hot.close()
        again = await cluster.connection(2, "hot")
        assert again is not hot
        assert again.is_open


async def test_an_unknown_broker_is_unreachable(autojump_clock: MockClock) -> None:
    async with clustered() as (_, cluster):
        await cluster.refresh()
        with pytest.raises(BrokerUnreachable, match="broker 7 is not in the cluster's metadata"):
            await cluster.connection(7)


async def test_connections_to_brokers_that_left_are_closed(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):
        await cluster.refresh()
        gone = await cluster.connection(3)
        del brokers.brokers[3]
        await cluster.refresh()
        assert not gone.is_open


async def test_a_closed_client_opens_no_connection(autojump_clock: MockClock) -> None:
    async with clustered() as (_, cluster):
        await cluster.refresh()
        connection = await cluster.connection(2)
        await cluster.aclose()
        assert not connection.is_open
        with pytest.raises(BrokerUnreachable, match="is closed"):
            await cluster.connection(2)
        with pytest.raises(BrokerUnreachable):
            await cluster.refresh()
        assert trio.current_time() == 0


async def test_a_connection_that_opens_while_the_client_closes_is_closed(
    autojump_clock: MockClock,
) -> None:
    async with clustered() as (brokers, cluster), trio.open_nursery() as nursery:
        await cluster.refresh()

        async def greeted_late(asked: Asked) -> Any:
            await trio.sleep(2)
            return brokers.brokers[2].announced()

        async def close() -> None:
            await trio.sleep(1)
            await cluster.aclose()

        brokers.brokers[2].answers["ApiVersions"] = greeted_late
        nursery.start_soon(close)
        assert not (await cluster.connection(2)).is_open


async def test_a_session_that_will_end_gets_a_new_connection(autojump_clock: MockClock) -> None:
    def authenticate(asked: Asked) -> sa.SaslAuthenticateResponse:
        return sa.SaslAuthenticateResponse(0, None, b"", session_lifetime_ms=100_000)

    properties = replace(BOOTSTRAP, sasl=SaslCredentials("PLAIN", "alice", Secret("secret")))
    async with clustered(properties) as (brokers, cluster):
        for each in brokers.brokers.values():
            each.answers["SaslHandshake"] = lambda _: sh.SaslHandshakeResponse()
            each.answers["SaslAuthenticate"] = authenticate
        await cluster.refresh()
        first = await cluster.connection(2)
        await trio.sleep(80)
        assert await cluster.connection(2) is first
        await trio.sleep(10)
        assert await cluster.connection(2) is not first
        assert not first.is_open


async def test_calls_to_any_broker_use_a_connection_that_is_open(
    autojump_clock: MockClock,
) -> None:
    async with clustered() as (brokers, cluster):
        await cluster.refresh()
        for each in brokers.brokers.values():
            each.answers["DescribeConfigs"] = lambda _: dc.DescribeConfigsResponse()
        for _ in range(10):
            await cluster.call_any("DescribeConfigs", dc.DescribeConfigsRequest())
        assert [each.connections for each in brokers.brokers.values()] == [1, 0, 0]


async def test_calls_under_way_end_when_the_client_closes(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster), trio.open_nursery() as nursery:
        brokers.brokers[2].answers["ListOffsets"] = lambda _: None

        async def close() -> None:
            await trio.sleep(1)
            await cluster.aclose()

        nursery.start_soon(close)
        with pytest.raises(Disconnected, match="was closed here"):
            await cluster.call_leader("orders", 1, "ListOffsets", list_offsets(1))
        assert trio.current_time() == 1
