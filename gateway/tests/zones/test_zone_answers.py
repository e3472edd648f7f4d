"""The answers that depend on a client's zone: leaders, replicas, preferred read replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from tests.worlds.cluster.several_gateways import Clock, Cluster, Running, cluster, joined
from tests.worlds.wire_client import WireClient, records_batch
from tidegate_coordination.rules.draining import DrainGateway
from tidegate_gateway.zones.read_steering import STAY
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import describe_topic_partitions as dtp
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import metadata as md

ZONES = {1: "a", 2: "b", 3: "c", 4: "a"}


@asynccontextmanager
async def zoned(**settings: str) -> AsyncIterator[tuple[Cluster, dict[int, Running]]]:
    """Run gateways 1 to 4 in zones a, b, c, a, with a topic t of 12 partitions, factor 3."""
    named = {name.replace("_", "."): text for name, text in settings.items()}
    async with cluster({"default.replication.factor": "3", "num.partitions": "12"} | named) as all_:
        running = {
            node_id: await all_.start(node_id, Clock(), zone=zone)
            for node_id, zone in ZONES.items()
        }
        asked = md.MetadataRequest([md.MetadataRequestTopic(name="t")])
        await running[1].world.connect().call("Metadata", 12, asked)
        yield all_, running


async def leaders(client: WireClient, client_id: str = "test") -> list[tuple[int, list[int]]]:
    """Ask for the leader and replicas of each partition of t."""
    client.client_id = client_id
    asked = md.MetadataRequest([md.MetadataRequestTopic(name="t")])
    answer = await client.call("Metadata", 12, asked)
    partitions = answer.topics[0].partitions
    return [(each.leader_id, each.replica_nodes) for each in partitions]


async def fetched(
    client: WireClient, rack: str, version: int = 12, **more: Any
) -> fe.FetchResponse:
    """Fetch partition 0 of t from its beginning."""
    asked = fe.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [fe.FetchTopic(topic="t", partitions=[asked])]
    request = fe.FetchRequest(max_bytes=1 << 20, topics=topics, session_epoch=-1, rack_id=rack)
    for name, value in more.items():
        setattr(request, name, value)
    answer = await client.call("Fetch", version, request)
    assert isinstance(answer, fe.FetchResponse)
    return answer


async def close(client: WireClient) -> None:
    """Close the connection, and wait until the gateway has closed it, too."""
    client.transport.close()
    await trio.testing.wait_all_tasks_blocked()


async def test_leaders_are_of_the_clients_zone(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        client = running[1].world.connect()
        in_b = await leaders(client, "app,zone=b")
        in_a = await leaders(client, "automq_az=a&app-0")
        anywhere = await leaders(client, "app")
        nowhere = await leaders(client, "app,zone=mars")
        without = running[1].gateway.view.cluster_view.without_gateway

    assert {leader for leader, _ in in_b} == {2}
    assert {leader for leader, _ in in_a} == {1, 4}
    assert {leader for leader, _ in anywhere} == {1, 2, 3, 4}
    assert (nowhere, without) == (anywhere, 1)
    for seen in (in_a, in_b, anywhere):
        for leader, replicas in seen:
            assert replicas[0] == leader
            assert {ZONES[each] for each in replicas} == {"a", "b", "c"}


async def test_all_gateways_of_the_zone_are_named_for_produce(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        client = running[2].world.connect()
        asked = md.MetadataRequest([md.MetadataRequestTopic(name="t")])
        for client_id, version in [("app,zone=a", 9), ("app,zone=a", 8), ("app", 12)]:
            client.client_id = client_id
            answer = await client.call("Metadata", version, asked)
            for each in answer.topics[0].partitions:
                rest = {1: 4, 4: 1}.get(each.leader_id)
                named = [each.leader_id, rest] if (client_id, version) == ("app,zone=a", 9) else []
                assert each.recommended_produce_brokers == named


async def test_all_gateways_say_the_same(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        for client_id in ("x", "x,zone=a", "x,zone=c"):
            seen = [await leaders(each.world.connect(), client_id) for each in running.values()]
            assert all(each == seen[0] for each in seen)


async def test_described_partitions_are_as_in_metadata(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        client = running[3].world.connect()
        seen = await leaders(client, "app,zone=a")
        request = dtp.DescribeTopicPartitionsRequest([dtp.TopicRequest("t")])
        answer = await client.call("DescribeTopicPartitions", 0, request)
    described = [(each.leader_id, each.replica_nodes) for each in answer.topics[0].partitions]
    assert described == seen


async def test_a_gateway_that_drains_or_is_gone_is_not_recommended(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        client = running[2].world.connect()
        before = await leaders(client, "app,zone=a")
        await running[4].drain()
        after = await leaders(client, "app,zone=a")
        await running[1].drain()
        last = await leaders(client, "app,zone=a")

    assert {leader for leader, _ in after} == {1}
    assert all(old == 4 or old == new for (old, _), (new, _) in zip(before, after, strict=True))
    assert {leader for leader, _ in last} == {2, 3}


async def test_a_listeners_zone_and_an_addresses(autojump_clock: object) -> None:
    async with zoned(zone_listener_map="PLAINTEXT:c") as (_, running):
        assert {leader for leader, _ in await leaders(running[1].world.connect())} == {3}
    async with zoned(zone_cidr_map="b@10.0.0.0/8") as (_, running):
        near = running[1].world.connect("10.1.2.3")
        assert {leader for leader, _ in await leaders(near)} == {2}


async def test_a_consumer_is_moved_by_its_fetch_and_then_by_its_metadata(
    autojump_clock: object,
) -> None:
    async with zoned() as (_, running):
        here, there = running[1].world.connect(), running[3].world.connect()
        assert (await here.produce("t", 0, records_batch(b"v"))).error_code == 0
        [moved] = (await fetched(here, "c", max_wait_ms=60_000)).responses[0].partitions
        # Gateway 3 may not have read the commit yet.
        awaited = await fetched(there, "c", max_wait_ms=60_000, min_bytes=1)
        [served] = awaited.responses[0].partitions
        told = await leaders(running[1].world.connect(), "test")
        steering = running[1].gateway.view.steering

    assert (moved.error_code, moved.preferred_read_replica, moved.records) == (0, 3, b"")
    assert (moved.high_watermark, steering.moved) == (1, 1)
    assert (served.preferred_read_replica, bool(served.records)) == (-1, True)
    assert {leader for leader, _ in told} == {3}


async def test_consumers_without_a_usable_zone_are_served_where_they_are(
    autojump_clock: object,
) -> None:
    async with zoned() as (_, running):
        here = running[1].world.connect()
        await here.produce("t", 0, records_batch(b"v"))
        for rack, version in [("", 12), ("a", 12), ("mars", 12), ("c", 10)]:
            [served] = (await fetched(here, rack, version)).responses[0].partitions
            assert served.records, rack
        here.client_id = "app,zone=a"  # the zone in the client id overrides the rack
        [served] = (await fetched(here, "c")).responses[0].partitions
        assert served.records
        await running[3].drain()
        here.client_id = "other"
        [served] = (await fetched(here, "c")).responses[0].partitions
        assert served.records


async def test_a_consumer_that_stays_at_a_draining_gateway_learns_where_to_go(
    autojump_clock: object,
) -> None:
    """franz-go keeps to its preferred read replica as long as that one only answers errors."""
    async with zoned() as (_, running):
        for left, rack, others in [(3, "c", {1, 2, 4}), (4, "a", {1})]:
            client = running[left].world.connect()
            assert not (await fetched(client, rack)).responses[0].partitions[0].error_code
            await running[1].gateway.coordinator.propose(DrainGateway(left, stops=False))
            await trio.sleep(1)
            told = await leaders(client)
            named = [await _sent_away(client, rack) for _ in range(4)]
            assert named == [STAY, told[0][0], STAY, told[0][0]], left
            assert {leader for leader, _ in told} == others
            assert running[left].gateway.view.steering.moved == 2
            client.client_id = "without"
            assert [await _sent_away(client, "") for _ in range(3)] == [STAY] * 3
            assert [await _sent_away(client, rack, 10) for _ in range(3)] == [STAY] * 3


async def _sent_away(client: WireClient, rack: str, version: int = 12) -> int:
    """Fetch at a gateway that sends clients away; return the gateway that it names, or STAY."""
    [answer] = (await fetched(client, rack, version)).responses[0].partitions
    assert (answer.error_code, answer.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
    return answer.preferred_read_replica


async def test_a_consumer_is_never_sent_to_a_gateway_that_is_no_replica(
    autojump_clock: object,
) -> None:
    """A Java client would return from such a gateway at once, again and again."""
    async with zoned(default_replication_factor="1") as (_, running):
        here = running[1].world.connect()
        [(leader, replicas), *_] = await leaders(here)
        assert replicas == [leader]
        node = running[leader].world.connect()
        await node.produce("t", 0, records_batch(b"v"))
        other = next(zone for zone in "abc" if zone != ZONES[leader])
        [served] = (await fetched(node, other)).responses[0].partitions
        assert (served.preferred_read_replica, bool(served.records)) == (-1, True)
        node.client_id = f"app,zone={other}"
        [moved] = (await fetched(node, other)).responses[0].partitions
        assert ZONES[moved.preferred_read_replica] == other


async def test_zones_as_long_as_a_book_are_not_kept(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        here = running[1].world.connect()
        await here.produce("t", 0, records_batch(b"v"))
        await fetched(here, "c" * 30_000)
        peers = [each.peer for each in running[1].gateway.connections]
        said = [each.said_rack for each in peers if each.said_rack]
        long_id = "app,zone=" + "b" * 30_000
        zone = running[1].gateway.view.zones.of(peers[0], long_id).zone
    assert said == [("test", "c" * 255)]
    assert zone == "b" * 255


async def test_a_session_names_the_preferred_replica_each_time(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        here = running[1].world.connect()
        first = await fetched(here, "c", session_epoch=0)
        again = await fetched(here, "c", session_id=first.session_id, session_epoch=1, topics=[])
    for answer in (first, again):
        [moved] = answer.responses[0].partitions
        assert moved.preferred_read_replica == 3


async def test_a_groups_coordinator_is_its_holder_whatever_the_zone(
    autojump_clock: object,
) -> None:
    """Group traffic may cross zones: one gateway holds the group, and all gateways name it."""
    async with zoned() as (_, running):
        names = {f"group {number}": 1 + number % 3 for number in range(6)}
        for name, node_id in names.items():
            holder = running[node_id].world.connect()
            # In another zone than the gateway.
            holder.client_id = f"app,zone={ZONES[1 + node_id % 3]}"
            await joined(holder, name, 60_000)
        request = fc.FindCoordinatorRequest(coordinator_keys=list(names))
        for asked in (1, 2, 3):
            client = running[asked].world.connect()
            for client_id in ("app", "app,zone=a", "app,zone=b", "app,zone=c", "app,zone=mars"):
                client.client_id = client_id
                answer = await client.call("FindCoordinator", 4, request)
                found = {each.key: each.node_id for each in answer.coordinators}
                assert found == names, (asked, client_id)


async def test_a_rack_is_forgotten_with_its_connections(autojump_clock: object) -> None:
    async with zoned() as (_, running):
        consumer, other = running[1].world.connect(), running[1].world.connect()
        await fetched(consumer, "c")
        assert {leader for leader, _ in await leaders(other)} == {3}
        disagrees = running[1].world.connect()
        await fetched(disagrees, "b")
        assert {leader for leader, _ in await leaders(other)} == {1, 2, 3, 4}
        await close(disagrees)
        assert {leader for leader, _ in await leaders(other)} == {3}
        await close(consumer)
        assert {leader for leader, _ in await leaders(other)} == {1, 2, 3, 4}
