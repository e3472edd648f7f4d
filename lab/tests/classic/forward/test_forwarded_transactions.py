"""Transactional ids of a classic cluster, the model, that gateways forward."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from tests.worlds import transaction_client as tx
from tests.worlds.transaction_client import COMMITTED, Producer
from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.rules.migration.mirrors import SetLink
from tidegate_coordination.rules.migration.switches import FenceTopics
from tidegate_coordination.state.transactions.rows import TransactionState
from tidegate_gateway.migration.units.closure import Unit
from tidegate_gateway.migration.units.fencing import fenced_unit
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import txn_offset_commit as tc
from tidegate_protocol.messages import write_txn_markers as wm
from tidegate_simulation.classic.profiles import KAFKA_3_9, KAFKA_4_3, KAFKA_4_3_V1, Profile

from ..test_mirrors import World, becomes, mirroring
from .test_forwarded_groups import SERVERS, call, fetch, propose, state, topic_id

UNIT = Unit(("t",), ("g1",), ("x*",))
ONGOING = "Ongoing"
COMMITTED_STATE = TransactionState.COMPLETE_COMMIT
ABORTED_STATE = TransactionState.COMPLETE_ABORT


async def linked(world: World, version: int = 2) -> None:
    link = SetLink(
        "src",
        world.source.cluster_id,
        SERVERS,
        ("t",),
        forwards=True,
        groups=("g*",),
        transactional_ids=("x*",),
        transaction_version=version,
    )
    assert await propose(world, link) is None
    world.write(1)
    await world.copied()
    await becomes(lambda: all(each.gateway.links.running for each in world.gateways))


async def init(world: World, at: int = 0, name: str = "x") -> Producer:
    return await tx.init(world.gateways[at].world.connect(), name)


async def add(world: World, producer: Producer, *, topic: str = "t", at: int = 0) -> int:
    """Add partition 0 as a client of transaction.version 1 does; return the error."""
    wanted = ap.AddPartitionsToTxnTopic(topic, [0])
    request = ap.AddPartitionsToTxnRequest([], "x", *producer, [wanted])
    answer = await call(world, "AddPartitionsToTxn", 3, request, at)
    [told] = answer.results_by_topic_v3_and_below
    return int(told.results_by_partition[0].partition_error_code)


async def write(
    world: World, producer: Producer, sequence: int, *, version: int = 13, at: int = 0
) -> int:
    client = world.gateways[at].world.connect()
    return await tx.write(client, topic_id(world), producer, sequence, version=version)


async def end(
    world: World, producer: Producer, *, committed: bool = True, version: int = 5, at: int = 0
) -> Any:
    client = world.gateways[at].world.connect()
    return await tx.end(client, producer, committed=committed, version=version)


async def stage(
    world: World, producer: Producer, offset: int, *, version: int = 5, group: str = "g1"
) -> int:
    row = tc.TxnOffsetCommitRequestPartition(0, offset, -1, "")
    topics = [tc.TxnOffsetCommitRequestTopic("t", [row])]
    request = tc.TxnOffsetCommitRequest("x", group, *producer, topics=topics)
    answer = await call(world, "TxnOffsetCommit", version, request)
    return int(answer.topics[0].partitions[0].error_code)


async def add_group(world: World, producer: Producer, group: str = "g1") -> int:
    request = ao.AddOffsetsToTxnRequest("x", *producer, group)
    answer = await call(world, "AddOffsetsToTxn", 4, request)
    return int(answer.error_code)


def at_source(world: World) -> Any:
    return world.source.transactions["x"]


async def committed_end(world: World, at: int = 0) -> int:
    return await tx.end_offset(world.gateways[at].world.connect(), COMMITTED)


@pytest.mark.parametrize("profile", [KAFKA_4_3, KAFKA_4_3_V1, KAFKA_3_9])
async def test_steps_of_version_1_are_the_sources(
    profile: Profile, autojump_clock: MockClock
) -> None:
    async with mirroring(gateways=2, profile=profile) as world:
        await linked(world, 1)
        producer = await init(world)
        assert await write(world, producer, 0, version=11) == E.TRANSACTION_ABORTABLE
        assert await add(world, producer, at=1) == E.NONE
        assert await write(world, producer, 0, version=11, at=1) == E.NONE
        assert await add_group(world, producer) == E.NONE
        assert await stage(world, producer, 1, version=4) == E.NONE
        assert await fetch(world) == -1
        assert (await end(world, producer, version=4)).error_code == E.NONE
        assert state(world).transactions.get("x") is None
        await world.copied()
        assert await fetch(world, at=1) == 1
        assert await committed_end(world, at=1) == 3


async def test_markers_of_a_tool_are_refused_and_nothing_ends(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        producer = await init(world)
        assert await write(world, producer, 0) == E.NONE
        topics = [wm.WritableTxnMarkerTopic("t", [0])]
        marker = wm.WritableTxnMarker(*producer, False, topics, 0)
        answer = await call(world, "WriteTxnMarkers", 1, wm.WriteTxnMarkersRequest([marker]))
        [row] = answer.markers[0].topics[0].partitions
        assert row.error_code == E.POLICY_VIOLATION
        assert (await end(world, producer)).error_code == E.NONE


async def test_steps_of_version_2_are_the_sources(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        producer = await init(world)
        assert await write(world, producer, 0, at=1) == E.NONE
        assert await stage(world, producer, 1) == E.NONE
        answer = await end(world, producer, committed=False, at=1)
        assert (answer.error_code, answer.producer_epoch) == (E.NONE, producer[1] + 1)
        await world.copied()
        assert await fetch(world) == -1
        assert await write(world, producer, 1) == E.INVALID_PRODUCER_EPOCH
        following = answer.producer_id, answer.producer_epoch
        assert await write(world, following, 0) == E.NONE
        assert await stage(world, following, 1) == E.NONE
        assert (await end(world, following)).error_code == E.NONE
        await becomes(lambda: state(world).partitions[0].next_offset >= 5)
        assert await fetch(world) == 1


async def test_a_transaction_cannot_span_two_clusters(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        own = await world.gateways[0].world.create_topic("own", 1)
        producer = await init(world)
        assert await add(world, producer, topic="own") == E.TOPIC_AUTHORIZATION_FAILED
        assert await add(world, producer, topic="none") == E.UNKNOWN_TOPIC_OR_PARTITION
        client = world.gateways[0].world.connect()
        code = await tx.write(client, own, producer, 0, topic_name="own")
        assert code == E.TOPIC_AUTHORIZATION_FAILED
        assert await add_group(world, producer, "own") == E.GROUP_AUTHORIZATION_FAILED
        assert await stage(world, producer, 1, group="own") == E.GROUP_AUTHORIZATION_FAILED
        local = await init(world, name="own")
        code = await tx.write(client, topic_id(world), local, 0, name="own")
        assert code == E.TOPIC_AUTHORIZATION_FAILED


async def test_an_id_that_was_here_before_is_this_clusters(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        producer = await init(world)
        await linked(world)
        assert (await init(world))[0] == producer[0]
        assert "x" not in world.source.transactions


@pytest.mark.parametrize(("version", "told"), [(0, None), (1, 1), (2, 2)])
async def test_clients_speak_the_version_of_the_source(
    version: int, told: int | None, autojump_clock: MockClock
) -> None:
    async with mirroring() as world:
        await linked(world, version)
        assert await told_version(world) == told
        await switch(world, Unit(("t",), (), ("x*",)))
        assert await told_version(world) == 2


async def test_a_forwarded_batch_needs_no_look_at_the_log(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mirroring() as world:
        await linked(world, 1)
        producer = await init(world)
        assert await add(world, producer) == E.NONE

        async def catch_up() -> None:
            raise AssertionError("it reads the log")

        with monkeypatch.context() as patched:
            patched.setattr(world.gateways[0].gateway.coordinator, "catch_up", catch_up)
            assert await write(world, producer, 0, version=11) == E.NONE


def source_of(world: World) -> ClassicCluster:
    lines = world.gateways[0].gateway.links.running["src"].group_lines
    assert lines is not None
    return lines.cluster


async def hold(world: World, unit: Unit = UNIT) -> int:
    coordinator = world.gateways[0].gateway.coordinator
    return await fenced_unit(coordinator, source_of(world), "src", unit)


async def switch(world: World, unit: Unit = UNIT) -> None:
    held = await hold(world, unit)
    number = await propose(world, FenceTopics("src", ((topic_id(world), ""),), held))
    assert isinstance(number, int)
    await becomes(lambda: not state(world).switches.fences)


async def told_version(world: World) -> int | None:
    answer = await call(world, "ApiVersions", 4, av.ApiVersionsRequest("test", "1"))
    features = {each.name: each.max_version_level for each in answer.finalized_features}
    return features.get("transaction.version")


async def test_tools_see_ids_at_the_source(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        producer = await init(world)
        assert await write(world, producer, 0) == E.NONE
        asked = dt.DescribeTransactionsRequest(["x", "y"])
        described = (await call(world, "DescribeTransactions", 0, asked)).transaction_states
        assert [(each.error_code, each.transaction_state) for each in described] == [
            (E.NONE, ONGOING),
            (E.TRANSACTIONAL_ID_NOT_FOUND, ""),
        ]
        listed = [
            each.transactional_id
            for at in (0, 1)
            for each in (
                await call(world, "ListTransactions", 0, lt.ListTransactionsRequest(), at)
            ).transaction_states
        ]
        assert listed == ["x"]


async def test_a_gateway_that_has_not_read_of_a_topic_looks_first(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mirroring() as world:
        await linked(world)
        producer = await init(world)
        coordinator, topics = world.gateways[0].gateway.coordinator, state(world).topics
        known, real = topics.by_name.pop("t"), coordinator.catch_up

        async def catch_up() -> None:
            topics.by_name["t"] = known
            await real()

        monkeypatch.setattr(coordinator, "catch_up", catch_up)
        assert await add(world, producer) == E.NONE
