"""The lags of groups: by their committed offsets, and while gateways are lost."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from tests.worlds.app_world import pages_of, starting_pages
from tests.worlds.cluster.several_gateways import Clock, Running, cluster
from tests.worlds.metrics_page import families
from tests.worlds.wire_client import WireClient, WireWorld, records_batch, wire_world
from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.topic_settings import compile_topic_settings
from tidegate_coordination.events.cluster import RUN_WALKED, Run
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.runs import Marker, packed_marker
from tidegate_gateway.counting.group_lags import MAX_MARKERS, GroupLags, TopicLag, waits_of
from tidegate_gateway.gateway import Gateway
from tidegate_protocol.messages import offset_commit as oc

NOW_MS = 1_700_000_000_000
SETTINGS = compile_topic_settings({}, BrokerLayers())
LAGS = ("lag", "lag_sum")


async def commit(client: WireClient, group_id: str, topic: str, *offsets: int) -> None:
    """Commit these offsets for partitions 0, 1 and so on."""
    rows = [oc.OffsetCommitRequestPartition(*each) for each in enumerate(offsets)]
    topics = [oc.OffsetCommitRequestTopic(topic, partitions=rows)]
    answer = await client.call("OffsetCommit", 8, oc.OffsetCommitRequest(group_id, topics=topics))
    assert {each.error_code for each in answer.topics[0].partitions} == {0}


async def topic_of_two(world: WireWorld, **configs: str) -> None:
    """Create topic t; write 3 records to partition 0, and a minute later 2 to partition 1."""
    client = world.connect()
    await world.create_topic("t", 2, message_timestamp_type="LogAppendTime", **configs)
    assert (await client.produce("t", 0, records_batch(b"a", b"b", b"c"))).error_code == 0
    await trio.sleep(60)
    assert (await client.produce("t", 1, records_batch(b"d", b"e"))).error_code == 0


def figures(gateway: Gateway, *names: str) -> dict[str, float]:
    """Return the figures of groups, such as "lag g t 0" -> 3."""
    found: dict[str, float] = {}
    for family in families(gateway).values():
        short = family.name.removeprefix("kafka_consumergroup_").removeprefix("tidegate_group_")
        if short in names:
            for each in family.samples:
                labels = (each.labels.get(of) for of in ("consumergroup", "topic", "partition"))
                found[" ".join([short, *filter(None, labels)])] = each.value
    return found


async def test_lag_follows_the_committed_offsets(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await topic_of_two(world)
        client = world.connect()
        await commit(client, "g", "t", 1, 2)
        await commit(client, "h", "t", 3)
        names = (*LAGS, "current_offset", "members")
        assert figures(world.gateway, *names) == {
            "lag g t 0": 2,
            "lag g t 1": 0,
            "lag h t 0": 0,
            "lag_sum g t": 2,
            "lag_sum h t": 0,
            "current_offset g t 0": 1,
            "current_offset g t 1": 2,
            "current_offset h t 0": 3,
            "members g": 0,
            "members h": 0,
        }
        seconds = figures(world.gateway, "lag_seconds")
        assert seconds["lag_seconds h t"] == 0
        # The log's time advances with entries only.
        assert seconds["lag_seconds g t"] == pytest.approx(60, abs=11)
        await commit(client, "g", "t", 3, 2)
        found = figures(world.gateway, *LAGS, "lag_seconds")
        assert set(found.values()) == {0}


async def test_retention_used_says_how_near_the_deletion_is(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await topic_of_two(world, retention_ms="600000")
        client = world.connect()
        await commit(client, "g", "t", 0, 0)
        used = figures(world.gateway, "retention_used_ratio")["retention_used_ratio g t"]
        assert used == pytest.approx(0.1, abs=0.02)
        await trio.sleep(1_200)
        partition = next(iter(world.gateway.coordinator.state.partitions.values()))
        assert partition.log_start > 0
        lost = {"retention_used_ratio g t": 1, "lag_seconds g t": 0, "lag_sum g t": 5}
        names = ("retention_used_ratio", "lag_seconds", "lag_sum")
        assert figures(world.gateway, *names) == lost


async def test_one_gateway_has_the_groups_and_another_one_after_its_loss(
    autojump_clock: MockClock,
) -> None:
    async with cluster() as those:
        one = await those.start(1, Clock())
        two = await those.start(2, Clock())
        await topic_of_two(one.world)
        await commit(one.world.connect(), "g", "t", 1, 1)
        await two.gateway.coordinator.catch_up()
        lags = {"lag g t 0": 2, "lag g t 1": 1, "lag_sum g t": 3}
        assert figures(one.gateway, *LAGS) == lags
        assert figures(two.gateway, *LAGS) == {}
        assert controllers(one, two) == [1, 0]
        pages = [await cluster_page(each.gateway) for each in (one, two)]
        assert pages[0] == pages[1]
        assert 'kafka_consumergroup_lag{consumergroup="g",partition="0",topic="t"} 2\n' in pages[0]
        one.stop()
        await trio.sleep(60)
        assert figures(two.gateway, *LAGS) == lags
        assert controllers(two) == [1]
        await commit(two.world.connect(), "g", "t", 3, 1)
        assert figures(two.gateway, *LAGS) == {"lag g t 0": 0, "lag g t 1": 1, "lag_sum g t": 1}


def controllers(*those: Running) -> list[float]:
    name = "kafka_controller_kafkacontroller_activecontrollercount"
    return [families(each.gateway)[name].samples[0].value for each in those]


async def cluster_page(gateway: Gateway) -> str:
    answer = await pages_of(gateway).answer("GET", "/metrics/cluster")
    assert answer.status == 200
    assert isinstance(answer.body, bytes)
    return answer.body.decode()


async def test_a_gateway_that_is_cut_off_leaves_the_cluster_to_others(
    autojump_clock: MockClock,
) -> None:
    async with cluster() as those:
        way = FaultyLog(those.log, LogFaults(), Random(0))
        one = await those.start(1, Clock(), log=way)
        two = await those.start(2, Clock())
        await topic_of_two(one.world)
        await commit(one.world.connect(), "g", "t", 1, 1)
        assert controllers(one, two) == [1, 0]
        way.faults = LogFaults(outage=1.0)
        await trio.sleep(120)
        assert one.gateway.is_cut_off
        assert controllers(one, two) == [0, 1]
        assert figures(one.gateway, *LAGS) == {}
        answer = await pages_of(one.gateway).answer("GET", "/metrics/cluster")
        assert (answer.status, str(answer.body).split(";")[0]) == (
            503,
            "cut off from the metadata log",
        )


async def test_before_the_start_there_is_no_page_of_the_cluster() -> None:
    assert (await starting_pages().answer("GET", "/metrics/cluster")).status == 503


async def test_the_page_of_the_cluster_has_gauges_only(autojump_clock: MockClock) -> None:
    """Another gateway may show it later, and a counter would seem to start again."""
    async with wire_world() as world:
        await topic_of_two(world)
        await commit(world.connect(), "g", "t", 1)
        text = await cluster_page(world.gateway)
        kinds = {each.type for each in text_string_to_metric_families(text)}
        assert kinds == {"gauge"}
        assert "process_" not in text


async def test_groups_beyond_the_cap_are_summed(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await topic_of_two(world)
        client = world.connect()
        for number in range(4):
            await commit(client, f"g{number}", "t", number)
        state, of = world.gateway.coordinator.state, world.gateway.cluster_settings.of
        lags = GroupLags(2)
        for _ in lags.look(state, of):
            pass
        assert [(each.lag, each.group_id) for each in lags.partitions] == [(3, "g0"), (2, "g1")]
        assert lags.other_partitions == TopicLag(lag=1, offset=5)
        # The groups with the longest lag come first; g3 has read all records.
        assert [each.group_id for each in lags.topics] == ["g0", "g1"]
        seconds = lags.topics[0].seconds
        other = lags.other_topics
        assert other is not None
        assert (other.seconds, other.lag, other.offset, other.group_id) == (seconds, 1, 5, "")


async def test_an_offset_beyond_the_end_hides_no_other_lag(autojump_clock: MockClock) -> None:
    async with wire_world() as world:
        await topic_of_two(world)
        await commit(world.connect(), "g", "t", 0, 5_000)
        shown = figures(world.gateway, "lag", "lag_sum", "beyond_end_offsets", "lag_seconds")
        assert (shown["lag g t 0"], shown["lag g t 1"], shown["lag_sum g t"]) == (3, 0, 3)
        assert shown["beyond_end_offsets g t"] == 4_998
        assert shown["lag_seconds g t"] >= 60


def state_at(log_time_ms: int) -> ClusterState:
    state = ClusterState()
    state.log_time_ms = log_time_ms
    return state


def partition_of(*timestamps: int | Marker) -> Partition:
    """Return a partition of runs: ten records for each time stamp, a marker for each marker."""
    partition = Partition(0, bytes(16), 0)
    for each in timestamps:
        at = partition.next_offset
        if isinstance(each, Marker):
            partition.runs.append_marker(at, packed_marker(each))
            partition.next_offset = at + 1
        else:
            partition.fold_run(Run(0, 0, 1_000, at, 10, each, 0, RUN_WALKED), 1)
    return partition


def lag(partition: Partition, offset: int, **settings: Any) -> tuple[int, float, float]:
    """Return lag, seconds and used retention, a second after NOW_MS."""
    now_ms = NOW_MS + 1_000
    state, settings_now = state_at(now_ms), replace(SETTINGS, **settings)
    seconds, used = waits_of(state, partition, offset, settings_now, now_ms)
    return partition.next_offset - offset, seconds, round(used, 6)


def test_seconds_are_those_of_the_run_that_is_next() -> None:
    partition = partition_of(NOW_MS - 9_000, NOW_MS - 4_000, NOW_MS + 50_000)
    seconds = [lag(partition, offset, retention_ms=-1) for offset in (0, 9, 10, 19, 20, 30, 31)]
    assert seconds == [
        (30, 10, 0),
        (21, 10, 0),
        (20, 5, 0),
        (11, 5, 0),
        (10, 0, 0),  # a time stamp in the future
        (0, 0, 0),
        (-1, 0, 0),
    ]


def test_markers_are_no_records() -> None:
    marker = Marker(5, 0, True, NOW_MS - 8_000)
    partition = partition_of(NOW_MS - 9_000, marker, marker)
    assert lag(partition, 10) == (2, 0, 0)
    assert lag(partition, 9)[:2] == (3, 10)
    partition = partition_of(NOW_MS - 9_000, *[marker] * (MAX_MARKERS + 1))
    assert lag(partition, 10)[1] == 9  # the search ends there
    assert lag(partition, 11)[1] == 0


def test_retention_by_size_and_by_age() -> None:
    partition = partition_of(NOW_MS - 9_000, NOW_MS - 4_000)
    assert lag(partition, 0, retention_ms=40_000) == (20, 10, 0.25)
    assert lag(partition, 0, retention_ms=40_000, retention_bytes=4_000) == (20, 10, 0.5)
    assert lag(partition, 10, retention_ms=-1, retention_bytes=4_000) == (10, 5, 0.25)
    assert lag(partition, 20, retention_ms=1, retention_bytes=1) == (0, 0, 0)
    assert lag(partition, 0, retention_ms=1) == (20, 10, 1)
    assert lag(partition, 0, retention_ms=1, is_deleted_by_policy=False) == (20, 10, 0)
    partition.log_start = 5
    assert lag(partition, 3, retention_ms=-1) == (17, 10, 1)
    # The deleted offset may have been a marker.
    assert lag(partition, 4, retention_ms=-1) == (16, 10, 0)
    assert lag(partition, 5, retention_ms=-1) == (15, 10, 0)
