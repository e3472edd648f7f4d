"""The model's brokers, leaders, topics, configs and groups, as clients see them."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import ClassicClient, Closed, batch_of, classic_world, fetching
from tidegate_protocol.messages import alter_configs as ac
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import describe_cluster as dcl
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import describe_producers as dp
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import init_producer_id as ip
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import offset_fetch as of
from tidegate_protocol.messages import offset_for_leader_epoch as oe
from tidegate_simulation.classic.config_history import ConfigHistory
from tidegate_simulation.classic.profiles import KAFKA_2_1, KAFKA_3_9, PROFILES
from tidegate_simulation.classic.rights import (
    ALTER_CONFIGS,
    CLUSTER,
    DESCRIBE,
    GROUP,
    IDEMPOTENT_WRITE,
    TOPIC,
    WRITE,
    Denial,
)

SOUND = batch_of(b"v")


async def test_metadata_shows_brokers_and_leaders(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2, 3)) as world:
        client = await world.client(2)
        request = md.MetadataRequest(None, include_topic_authorized_operations=True)
        answer = await client.call("Metadata", 12, request)
        assert [tuple(vars_of(each)) for each in answer.brokers] == [
            (each, f"kafka{each}", 9092, f"rack{each}") for each in (1, 2, 3)
        ]
        assert (answer.cluster_id, answer.controller_id) == ("classic-cluster", 1)
        [topic] = answer.topics
        assert (topic.name, topic.topic_id) == ("t", world.cluster.topics["t"].topic_id)
        assert topic.topic_authorized_operations == 3576
        assert [(each.leader_id, each.leader_epoch) for each in topic.partitions] == [
            (1, 0),
            (2, 0),
        ]


def vars_of(broker: md.MetadataResponseBroker) -> list[object]:
    """The fields of a broker."""
    return [broker.node_id, broker.host, broker.port, broker.rack]


async def test_a_stopped_broker_hands_over_and_comes_back(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        first, second = await world.client(1), await world.client(2)
        waiting = await second.send("Fetch", 12, fetching("t", 0, max_wait_ms=60_000, epoch=0))
        world.servers.stop_broker(1)
        answer = await second.receive("Fetch", 12, waiting)
        assert answer.responses[0].partitions[0].error_code == 74
        with pytest.raises((Closed, trio.BrokenResourceError)):
            await first.offset("t", -1)
        with pytest.raises(ConnectionRefusedError):
            await world.client(1)
        [topic] = (await second.call("Metadata", 12, md.MetadataRequest(None))).topics
        assert [(each.leader_id, each.leader_epoch) for each in topic.partitions] == [
            (2, 1),
            (2, 0),
        ]
        assert topic.partitions[0].offline_replicas == [1]
        world.servers.stop_broker(2)
        world.servers.start_broker(1)
        third = await world.client(1)
        [topic] = (await third.call("Metadata", 12, md.MetadataRequest(None))).topics
        assert [(each.error_code, each.leader_id) for each in topic.partitions] == [
            (5, -1),
            (5, -1),
        ]
        world.servers.start_broker(2)
        [topic] = (await third.call("Metadata", 12, md.MetadataRequest(None))).topics
        assert [(each.leader_id, each.isr_nodes) for each in topic.partitions] == [(2, [2])] * 2


async def test_topics_by_name_and_by_id(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client, cluster = await world.client(), world.cluster
        before = cluster.topics["t"].topic_id
        cluster.add_partitions("t", 5)
        cluster.recreate_topic("t")
        wanted = [md.MetadataRequestTopic(before, None)]
        wanted += [md.MetadataRequestTopic(cluster.topics["t"].topic_id, None)]
        answer = await client.call("Metadata", 12, md.MetadataRequest(wanted))
        assert [(each.error_code, len(each.partitions)) for each in answer.topics] == [
            (100, 0),
            (0, 5),
        ]
        names = [md.MetadataRequestTopic(name=each) for each in ("no", "b/d", "t")]
        answer = await client.call("Metadata", 12, md.MetadataRequest(names))
        assert [each.error_code for each in answer.topics] == [3, 17, 0]
        cluster.creates_topics = True
        for code in (3, 0):
            answer = await client.call("Metadata", 12, md.MetadataRequest(names[:1]))
            assert answer.topics[0].error_code == code
        cluster.rights.denied.add(Denial(DESCRIBE, TOPIC, "t"))
        answer = await client.call("Metadata", 12, md.MetadataRequest(names))
        assert [each.error_code for each in answer.topics] == [0, 17, 29]


async def test_other_views_of_the_cluster(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        client = await world.client()
        answer = await client.call("DescribeCluster", 1, dcl.DescribeClusterRequest(True))
        assert [each.broker_id for each in answer.brokers] == [1, 2]
        assert answer.cluster_authorized_operations == 8096
        keys = ["g1", "g2"]
        found = await client.call("FindCoordinator", 4, fc.FindCoordinatorRequest("", 0, keys))
        assert {each.node_id for each in found.coordinators} == {1, 2}
        world.cluster.rights.denied.add(Denial(DESCRIBE, GROUP, "g1"))
        old = await client.call("FindCoordinator", 2, fc.FindCoordinatorRequest("g1"))
        assert (old.error_code, old.node_id) == (30, -1)


async def test_a_release_announces_what_it_speaks(autojump_clock: MockClock) -> None:
    ranges = {}
    for release, profile in PROFILES.items():
        async with classic_world(profile=profile) as world:
            client = await world.client()
            answer = await client.call("ApiVersions", 0, av.ApiVersionsRequest())
            found = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            ranges[release] = [found.get(each) for each in (1, 3, 44, 61)]
    assert ranges == {
        "4.3.1": [(4, 18), (0, 13), (0, 1), (0, 0)],
        "3.9": [(0, 17), (0, 12), (0, 1), (0, 0)],
        "2.1": [(0, 10), (0, 7), None, None],
    }


async def test_unknown_requests_close_the_connection(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        for api, version, request in (
            ("ListTransactions", 0, lt.ListTransactionsRequest()),
            ("Metadata", 8, md.MetadataRequest()),
        ):
            client = await world.client()
            with pytest.raises(Closed):
                await client.call(api, version, request)


async def test_api_versions_too_new_are_answered_in_version_0(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_2_1) as world:
        client = await world.client()
        number = await client.send("ApiVersions", 3, av.ApiVersionsRequest("a", "1"))
        answer = await client.receive("ApiVersions", 0, number)
        assert answer.error_code == 35
        assert [tuple(each) for each in triples(answer)] == [(18, 0, 2)]


def triples(answer: av.ApiVersionsResponse) -> list[tuple[int, int, int]]:
    """Key, first and last version."""
    return [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]


async def test_a_client_without_a_name_is_refused(autojump_clock: MockClock) -> None:
    async with classic_world(profile=KAFKA_3_9) as world:
        client = await world.client()
        answer = await client.call("ApiVersions", 3, av.ApiVersionsRequest("", "1"))
        assert answer.error_code == 42


async def test_brokers_see_a_config_one_after_another(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        first, second = await world.client(1), await world.client(2)
        world.cluster.nodes[2].config_delay_seconds = 3.0
        await second.alter("t", "max.message.bytes", "0")
        assert (await first.produce("t", SOUND, acks=1)).error_code == 10
        assert (await second.produce("t", SOUND, partition=1, acks=1)).error_code == 0
        shown = await described(second)
        assert shown["max.message.bytes"] == ("1048588", 5)
        await trio.sleep(3)
        assert (await second.produce("t", SOUND, partition=1, acks=1)).error_code == 10
        shown = await described(second)
        assert shown["max.message.bytes"] == ("0", 1)


async def described(client: ClassicClient) -> dict[str, tuple[str, int]]:
    """Value and source of each config of the topic t."""
    request = dc.DescribeConfigsRequest([dc.DescribeConfigsResource(2, "t", None)])
    [result] = (await client.call("DescribeConfigs", 4, request)).results
    return {each.name: (each.value, each.config_source) for each in result.configs}


def test_a_broker_sees_changes_in_their_order() -> None:
    history = ConfigHistory({})
    history.change({"max.message.bytes": "0"}, {1: 5.0, 2: 0.0})
    history.change({}, {1: 1.0, 2: 1.0})
    seen = [history.configs(1, now) for now in (0.0, 2.0, 4.9, 5.0)]
    assert seen == [{}, {}, {}, {}]
    assert history.configs(2, 0.5) == {"max.message.bytes": "0"}


@pytest.mark.parametrize(
    ("name", "value", "operation", "code"),
    [
        ("retention.ms", "-1", 0, 0),
        ("retention.ms", "-2", 0, 40),
        ("max.message.bytes", "x", 0, 40),
        ("no.such.config", "1", 0, 40),
        ("retention.ms", None, 0, 42),
        ("retention.ms", None, 1, 0),
        ("cleanup.policy", "compact", 2, 0),
        ("retention.ms", "5", 2, 40),
        ("cleanup.policy", "delete", 9, 42),
    ],
)
async def test_configs_are_checked(
    name: str, value: str | None, operation: int, code: int, autojump_clock: MockClock
) -> None:
    async with classic_world() as world:
        client = await world.client()
        assert await client.alter("t", name, value, operation) == code
        if name == "cleanup.policy" and not code:
            assert world.cluster.topics["t"].configs.latest == {name: "delete,compact"}


async def test_configs_of_unknown_topics_and_without_rights(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        values = ("1", "-2", None)
        assert [await client.alter("no", "retention.ms", each) for each in values] == [3, 40, 42]
        change = [ac.AlterConfigsResource(2, "t", [ac.AlterableConfig("retention.ms", "7")])]
        [answer] = (await client.call("AlterConfigs", 2, ac.AlterConfigsRequest(change))).responses
        assert (answer.error_code, (await described(client))["retention.ms"]) == (0, ("7", 1))
        world.cluster.rights.denied.add(Denial(ALTER_CONFIGS, TOPIC, "t"))
        assert await client.alter("t", "retention.ms", "1") == 29


async def test_configs_of_a_broker(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        wanted = [dc.DescribeConfigsResource(4, each, None) for each in ("1", "2", "")]
        answer = await client.call("DescribeConfigs", 4, dc.DescribeConfigsRequest(wanted))
        assert [(each.error_code, len(each.configs)) for each in answer.results] == [
            (0, 1),
            (42, 0),
            (0, 0),
        ]


async def test_committed_offsets(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()

        async def commit(generation: int, name: str = "t", version: int = 8) -> int:
            wanted = oc.OffsetCommitRequestTopic(name)
            wanted.partitions = [oc.OffsetCommitRequestPartition(0, 7, 3, "m")]
            request = oc.OffsetCommitRequest("g", generation, topics=[wanted])
            [topic] = (await client.call("OffsetCommit", version, request)).topics
            code: int = topic.partitions[0].error_code
            return code

        assert await commit(4, version=9) == 69
        assert [await commit(4), await commit(-1), await commit(4), await commit(-1, "no")] == [
            22,
            0,
            25,
            3,
        ]
        for topics in (None, [of.OffsetFetchRequestTopics("t", partition_indexes=[0])]):
            wanted = of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup("g", topics=topics)])
            [group] = (await client.call("OffsetFetch", 8, wanted)).groups
            found = group.topics[0].partitions[0]
            assert (found.committed_offset, found.committed_leader_epoch) == (7, 3)
        old = of.OffsetFetchRequest("g", [of.OffsetFetchRequestTopic("t", [0, 1])])
        answer = await client.call("OffsetFetch", 5, old)
        assert [each.committed_offset for each in answer.topics[0].partitions] == [7, -1]
        world.cluster.groups["g"].is_loading = True
        assert (await client.call("OffsetFetch", 5, old)).error_code == 14
        world.cluster.rights.denied.add(Denial(DESCRIBE, GROUP, "g"))
        assert (await client.call("OffsetFetch", 5, old)).error_code == 30


async def test_only_the_coordinator_knows_a_group(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        other = 3 - world.cluster.coordinator_of("g")
        client = await world.client(other)
        old = of.OffsetFetchRequest("g", [])
        assert (await client.call("OffsetFetch", 5, old)).error_code == 16


async def test_producers_get_ids_and_are_shown(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        first, second = await world.client(1), await world.client(2)
        request = ip.InitProducerIdRequest(None)
        made = [await each.call("InitProducerId", 4, request) for each in (first, first, second)]
        assert [each.producer_id for each in made] == [0, 1, 1000]
        batch = batch_of(b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=4)
        await first.produce("t", batch)
        wanted = dp.DescribeProducersRequest([dp.TopicRequest("t", [0, 9])])
        [topic] = (await first.call("DescribeProducers", 0, wanted)).topics
        assert [each.error_code for each in topic.partitions] == [0, 3]
        [state] = topic.partitions[0].active_producers
        assert (state.producer_id, state.last_sequence) == (1, 5)
        assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1)
        denied = world.cluster.rights.denied
        denied |= {Denial(IDEMPOTENT_WRITE, CLUSTER), Denial(WRITE, TOPIC)}
        assert (await first.call("InitProducerId", 4, request)).error_code == 31


async def test_ends_of_epochs(autojump_clock: MockClock) -> None:
    async with classic_world((1, 2)) as world:
        client = await world.client()
        await client.produce("t", SOUND)
        world.cluster.move_leader("t", 0, 2)
        world.cluster.move_leader("t", 0, 1)
        await client.produce("t", SOUND)

        async def end_of(epoch: int, current: int = -1) -> tuple[int, int, int]:
            wanted = oe.OffsetForLeaderTopic("t", [oe.OffsetForLeaderPartition(0, current, epoch)])
            request = oe.OffsetForLeaderEpochRequest(topics=[wanted])
            [topic] = (await client.call("OffsetForLeaderEpoch", 4, request)).topics
            found = topic.partitions[0]
            return found.error_code, found.leader_epoch, found.end_offset

        assert [await end_of(each) for each in (0, 1, 2, 3)] == [
            (0, 0, 1),
            (0, 0, 1),
            (0, 2, 2),
            (0, -1, -1),
        ]
        assert await end_of(0, 1) == (74, -1, -1)
