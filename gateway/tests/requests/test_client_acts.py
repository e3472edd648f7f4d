"""Log lines: changes of topics, configs and groups with their clients, and gateways that join or
leave.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.wire_client import WireClient, records_batch, wire_world
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.state.writers.gateways import Gateway, GatewayTable
from tidegate_gateway.topics.client_acts import MAX_NAMES
from tidegate_gateway.upkeep.gateway_watch import GatewayWatch
from tidegate_protocol.messages import alter_configs as ac
from tidegate_protocol.messages import create_partitions as cp
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import delete_groups as dg
from tidegate_protocol.messages import delete_records as dr
from tidegate_protocol.messages import delete_topics as dt
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import leave_group as lv
from tidegate_protocol.messages import metadata as md

TOPIC = 2
SET = 0


def told(lines: list[MutableMapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the acts of clients, in order; each line must name the client and its address."""
    acts = [each for each in lines if "names" in each]
    assert all(each["client_id"] == "test" for each in acts)
    assert all(each["peer"].startswith("client:") for each in acts)
    assert all(each["log_level"] == "info" for each in acts)
    return [(each["event"], each["names"]) for each in acts]


async def create(client: WireClient, *names: str, validate_only: bool = False) -> None:
    topics = [ct.CreatableTopic(name, 1, 1) for name in names]
    await client.call("CreateTopics", 5, ct.CreateTopicsRequest(topics, 1000, validate_only))


async def test_topics(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client = world.connect()
        with capture_logs() as lines:
            await create(client, "tried", validate_only=True)
            await create(client, "a", "b")
            await create(client, "a")  # the topic exists already
            grown = cp.CreatePartitionsRequest([cp.CreatePartitionsTopic("a", 3, None)], 1000)
            await client.call("CreatePartitions", 1, grown)
            await client.produce("a", 1, records_batch(b"1", b"2"))
            part = dr.DeleteRecordsTopic("a", [dr.DeleteRecordsPartition(1, 1)])
            await client.call("DeleteRecords", 1, dr.DeleteRecordsRequest([part], 1000))
            asked = [md.MetadataRequestTopic(name="made-on-the-way")]
            await client.call("Metadata", 9, md.MetadataRequest(asked, True))
            gone = dt.DeleteTopicsRequest(topic_names=["a", "nowhere"], timeout_ms=1000)
            await client.call("DeleteTopics", 4, gone)
        assert told(lines) == [
            ("topics created", ["a", "b"]),
            ("partitions added", ["a to 3"]),
            ("records deleted", ["a-1 below 1"]),
            ("topics created", ["made-on-the-way"]),
            ("topics deleted", ["a"]),
        ]


async def test_a_log_line_of_many_names_holds_the_first_ones(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client = world.connect()
        with capture_logs() as lines:
            await create(client, *(f"t{number:03}" for number in range(100)))
        [line] = [each for each in lines if "names" in each]
        assert (len(line["names"]), line["count"]) == (MAX_NAMES, 100)


async def test_configs_without_their_values(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client = world.connect()
        await create(client, "a")
        with capture_logs() as lines:
            config = ia.AlterableConfig("retention.ms", SET, "4711")
            for name in ("a", "nowhere"):
                resource = ia.AlterConfigsResource(TOPIC, name, [config])
                request = ia.IncrementalAlterConfigsRequest([resource])
                await client.call("IncrementalAlterConfigs", 0, request)
            old = ac.AlterConfigsResource(TOPIC, "a", [ac.AlterableConfig("segment.ms", "4711")])
            await client.call("AlterConfigs", 1, ac.AlterConfigsRequest([old]))
        assert told(lines) == [
            ("configs altered", ["topic a: retention.ms"]),
            ("configs altered", ["topic a: segment.ms"]),
        ]
        assert "4711" not in str(lines)


async def test_groups(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        client = world.connect()
        with capture_logs() as lines:
            protocols = [jg.JoinGroupRequestProtocol("range", b"")]
            join = jg.JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", protocols)
            joined = await client.call("JoinGroup", 3, join)
            member = joined.member_id
            await client.call("LeaveGroup", 1, lv.LeaveGroupRequest("g", member))
            await client.call("DeleteGroups", 1, dg.DeleteGroupsRequest(["g", "nobody"]))
        assert told(lines) == [
            ("a member joined its group", [member]),
            ("members left their group", [member]),
            ("groups deleted", ["g"]),
        ]
        assert [each["group"] for each in lines if "group" in each] == ["g", "g"]


def gateway(incarnation: int, *, draining: bool = False) -> Gateway:
    endpoints = (Endpoint("PLAINTEXT", "h", 9092),)
    node_id = incarnation % 10
    return Gateway(incarnation, node_id, "key", "az", endpoints, "1", draining, 0, 0)


def seen(watch: GatewayWatch, table: GatewayTable, *live: Gateway) -> list[tuple[str, int]]:
    """Return the lines that are logged once these gateways are live."""
    table.live.clear()
    table.live.update({each.incarnation: each for each in live})
    table.version += 1
    with capture_logs() as lines:
        watch.on_change(set())
    return [(each["event"], each["node_id"]) for each in lines]


def test_gateways_that_come_and_go() -> None:
    table = GatewayTable()
    table.live[11], table.live[12] = gateway(11), gateway(12)
    watch = GatewayWatch(table, own_incarnation=11)
    assert seen(watch, table, gateway(11), gateway(12)) == []
    drains = gateway(12, draining=True)
    assert seen(watch, table, gateway(11), drains) == [("a gateway drains", 2)]
    assert seen(watch, table, gateway(11), gateway(12)) == [("a gateway takes work again", 2)]
    assert seen(watch, table, gateway(12)) == []
    again = seen(watch, table, gateway(11), gateway(22))
    assert again == [("a gateway is gone", 2), ("a gateway came", 2)]
