"""Transactional ids of a classic cluster, the model, that gateways forward, and how they move."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds import transaction_client as tx
from tests.worlds.transaction_client import COMMITTED, Producer
from tidegate_coordination.classic.cluster import ClassicCluster
from tidegate_coordination.rules.link_groups import FenceGroups, UnfenceGroups
from tidegate_coordination.rules.mirrors import LinkRefusal, SetLink
from tidegate_coordination.rules.switches import FenceTopics, LiftFence
from tidegate_coordination.state.transactions.rows import TransactionState
from tidegate_gateway.cli.link import switch as switch_command
from tidegate_gateway.links.group_offsets import coordinator_of
from tidegate_gateway.links.unit_closure import Unit, closure_of, missing_groups, unfit_names
from tidegate_gateway.links.unit_fence import NotAtRest, fenced_unit
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import add_offsets_to_txn as ao
from tidegate_protocol.messages import add_partitions_to_txn as ap
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import list_transactions as lt
from tidegate_protocol.messages import txn_offset_commit as tc
from tidegate_protocol.messages import write_txn_markers as wm
from tidegate_runtime.settings_texts import BadSource
from tidegate_simulation.classic import rights
from tidegate_simulation.classic.model_transaction import ModelTransaction
from tidegate_simulation.classic.profiles import KAFKA_3_9, KAFKA_4_3, KAFKA_4_3_V1, Profile
from tidegate_simulation.classic.rights import Denial

from .test_forwarded_groups import SERVERS, call, commit, fetch, propose, state, topic_id
from .test_mirrors import World, becomes, mirroring

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


@pytest.mark.parametrize("committed", [True, False])
async def test_a_unit_moves_between_two_transactions(
    committed: bool, autojump_clock: MockClock
) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await commit(world, 1) == E.NONE
        producer = await init(world)
        assert await write(world, producer, 0) == E.NONE
        assert await stage(world, producer, 1) == E.NONE
        answer = await end(world, producer, committed=committed)
        await switch(world)
        assert topic_id(world) in state(world).switches.switched
        assert not state(world).link_groups.fences
        row = state(world).transactions.get("x")
        assert row is not None
        assert (row.producer_id, row.epoch) == (answer.producer_id, answer.producer_epoch)
        complete = (
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        )
        assert row.state is complete
        assert row.timeout_ms == 60_000
        assert state(world).groups.get("g1") is not None
        following = answer.producer_id, answer.producer_epoch
        assert await write(world, producer, 1, at=1) == E.INVALID_PRODUCER_EPOCH
        assert await write(world, following, 0, at=1) == E.NONE
        assert await stage(world, following, 2) == E.NONE
        assert (await end(world, following, at=1)).error_code == E.NONE
        assert await fetch(world, at=1) == 2
        assert await committed_end(world) == world.log().end_offset + 2
        assert (await init(world, name="x2"))[1] == 0
        assert "x2" not in world.source.transactions


async def test_an_open_transaction_ends_before_its_unit_moves(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await commit(world, 0) == E.NONE
        producer = await init(world)
        assert await write(world, producer, 0) == E.NONE
        async with trio.open_nursery() as nursery:
            nursery.start_soon(switch, world)
            await becomes(lambda: state(world, 1).link_groups.fences)
            assert await write(world, producer, 1, at=1) == E.NONE
            assert await stage(world, producer, 1) == E.NONE
            assert not state(world).switches.fences
            answer = await end(world, producer, at=1)
            following = answer.producer_id, answer.producer_epoch
            # This one begins the next transaction, so it waits, and is written here.
            assert await write(world, following, 0, at=1) == E.NONE
        assert at_source(world).state.value == "CompleteCommit"
        assert state(world).transactions.open_of("x") is not None
        assert (await end(world, following)).error_code == E.NONE
        assert await fetch(world) == 1
        assert await committed_end(world) == world.log().end_offset + 2


async def test_a_unit_whose_transaction_does_not_end_stays(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await commit(world, 0) == E.NONE
        producer = await init(world)
        assert await write(world, producer, 0) == E.NONE
        with pytest.raises(NotAtRest, match="x has an open transaction"):
            await hold(world)
        assert not state(world).link_groups.fences
        assert (await end(world, producer)).error_code == E.NONE


async def test_a_fence_holds_what_begins(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        producer = await init(world)
        number = await propose(world, FenceGroups("src", (), ("x*",)))
        await becomes(lambda: not state(world).link_groups.fences[number].awaited)
        done: list[object] = []

        async def note(*step: Any) -> None:
            done.append(await step[0](world, *step[1:]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, write, producer, 0)
            nursery.start_soon(note, stage, producer, 1)
            nursery.start_soon(note, init, 1, "x-other")
            await trio.sleep(3)
            assert not done
            assert at_source(world).state.value == "Empty"
            assert "x-other" not in world.source.transactions
            assert await propose(world, UnfenceGroups(number, "a test"))
        assert done.count(E.NONE) == 2
        assert at_source(world).state.value == ONGOING


async def test_if_the_topics_stay_the_unit_stays(autojump_clock: MockClock) -> None:
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await commit(world, 0) == E.NONE
        producer = await init(world)
        held = await hold(world)
        number = await propose(world, FenceTopics("src", ((topic_id(world), ""),), held))
        assert state(world).link_groups.fences[held].switch == number
        assert await propose(world, UnfenceGroups(held, "not alone")) is False
        assert await propose(world, LiftFence(number, "a test")) is True
        assert not state(world).link_groups.fences
        await becomes(lambda: not state(world).switches.fences)
        assert await write(world, producer, 0) == E.NONE
        assert at_source(world).state.value == ONGOING


async def test_what_a_unit_lacks_is_named(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        producer = await init(world)
        assert await write(world, producer, 0) == E.NONE
        own, link = state(world), state(world).links.by_name["src"]

        async def missing(unit: Unit) -> list[str]:
            return (await closure_of(own, link, source_of(world), unit)).missing

        assert await missing(UNIT) == []
        assert await missing(Unit(("t",))) == [
            "transactional id x writes to topic t: name the id, too"
        ]
        other = Unit(("u",), (), ("x*",))
        assert await missing(other) == ["transactional id x writes to topic t: name the topic, too"]


async def test_the_command_refuses_a_unit_that_is_not_whole(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await linked(world)
        producer = await init(world)
        assert await write(world, producer, 0) == E.NONE
        link = state(world).links.by_name["src"]

        async def check(unit: Unit) -> None:
            coordinator = world.gateways[0].gateway.coordinator
            await switch_command._check_whole(coordinator, link, source_of(world), unit)

        await check(UNIT)
        with pytest.raises(BadSource, match=r"cannot span two clusters:\n  .*name the id, too"):
            await check(Unit(("t",)))
        world.source.rights.denied.add(Denial(rights.DESCRIBE, rights.TRANSACTIONAL_ID))
        with pytest.raises(BadSource, match="shows no transactional id x"):
            await check(UNIT)


async def test_ids_need_forwarded_writes(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        link = SetLink("src", world.source.cluster_id, SERVERS, ("t",), transactional_ids=("x",))
        assert await propose(world, link) is LinkRefusal.IDS_WITHOUT_WRITES


@pytest.mark.parametrize(
    ("groups", "unit", "texts"),
    [
        (["g"], Unit(("t",), (), ("x",)), ["transactional id x commits offsets of g: name it"]),
        (["g"], Unit(("t",), ("g",), ("x",)), []),
        (["g"], Unit(("t",), ("g",), ()), ["transactional id x commits offsets of g: name it"]),
        (["g", "h"], Unit(("t",), ("g",), ()), []),
        ([], Unit(("t",), (), ("x",)), []),
        (["g"], Unit(("t",), (), ()), []),
    ],
)
def test_groups_are_known_by_the_partition_of_their_offsets(
    groups: list[str], unit: Unit, texts: list[str]
) -> None:
    assert missing_groups({3: {7, 8}, 4: {7}}, {3: groups}, {7: "x"}, unit) == texts


def test_names_that_stand_for_nothing_are_no_unit() -> None:
    unit = Unit(("t",), (), ("x*", "y"))
    assert unfit_names(["x1", "y"], unit) == []
    assert unfit_names(["x1"], unit) == [
        "the source shows no transactional id y: is the right to DESCRIBE it missing?"
    ]
    many = [f"x{number}" for number in range(2_001)]
    assert unfit_names([*many, "y"], unit) == [
        "these are 2002 transactional ids: a unit has up to 2000"
    ]


async def test_offsets_on_their_way_to_a_group_hold_up_the_fence_of_their_id(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go to the coordinator of the group, and may begin a transaction of the id there."""
    async with mirroring() as world:
        await linked(world)
        producer = await init(world)
        go_on = trio.Event()

        async def late(*parts: Any) -> int:
            await go_on.wait()
            return await coordinator_of(*parts)

        monkeypatch.setattr("tidegate_gateway.links.source_forwards.coordinator_of", late)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage, world, producer, 1)
            await trio.sleep(0.5)
            number = await propose(world, FenceGroups("src", (), ("x*",)))
            await trio.sleep(1.5)
            assert state(world).link_groups.fences[number].awaited
            go_on.set()
            await becomes(lambda: not state(world).link_groups.fences[number].awaited)
        assert at_source(world).state.value == ONGOING


async def test_an_end_during_a_switch_is_told_once_that_is_over(autojump_clock: MockClock) -> None:
    """An abort without a transaction raises the epoch, which the switch may have read before."""
    async with mirroring(gateways=2) as world:
        await linked(world)
        assert await commit(world, 0) == E.NONE
        producer = await init(world)
        await hold(world, Unit(("t",), (), ("x*",)))
        told: list[Any] = []

        async def abort() -> None:
            told.append(await end(world, producer, committed=False))

        state(world).link_groups.fences[1].switch = 7  # as if its topics were fenced
        async with trio.open_nursery() as nursery:
            nursery.start_soon(abort)
            await trio.sleep(1)
            assert at_source(world).epoch == producer[1] + 1
            assert not told
            state(world).link_groups.fences[1].switch = 0
            assert await propose(world, UnfenceGroups(1, "a test"))
        assert (told[0].error_code, told[0].producer_epoch) == (E.NONE, producer[1] + 1)


async def test_an_id_that_is_here_does_not_hold_up_its_unit(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        own = await init(world, name="x-own")
        await linked(world)
        world.source.transactions["x-own"] = ModelTransaction("x-own", 77, epoch=3)
        assert await commit(world, 1) == E.NONE
        await init(world)
        await switch(world)
        assert topic_id(world) in state(world).switches.switched
        row = state(world).transactions.get("x-own")
        assert row is not None
        assert row.producer_id == own[0]


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
