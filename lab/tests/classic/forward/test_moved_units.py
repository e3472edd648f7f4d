"""Units of topics, groups and transactional ids move from a model of a classic cluster."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.classic.forward.test_forwarded_transactions import (
    ONGOING,
    UNIT,
    at_source,
    committed_end,
    end,
    hold,
    init,
    linked,
    source_of,
    stage,
    switch,
    write,
)
from tidegate_coordination.client.groups.group_offsets import coordinator_of
from tidegate_coordination.rules.migration.group_moves import FenceGroups, UnfenceGroups
from tidegate_coordination.rules.migration.mirrors import LinkRefusal, SetLink
from tidegate_coordination.rules.migration.switches import FenceTopics, LiftFence
from tidegate_coordination.state.transactions.rows import TransactionState
from tidegate_gateway.cli.link import switch as switch_command
from tidegate_gateway.migration.units.closure import Unit, closure_of, missing_groups, unfit_names
from tidegate_gateway.migration.units.fencing import NotAtRest
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_runtime.settings_texts import BadSource
from tidegate_simulation.classic import rights
from tidegate_simulation.classic.model_transaction import ModelTransaction
from tidegate_simulation.classic.rights import Denial

from ..test_mirrors import becomes, mirroring
from .test_forwarded_groups import SERVERS, commit, fetch, propose, state, topic_id


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
            # This write begins the next transaction, so it waits for the move, and is written here.
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
    """The group's coordinator gets the offsets, and may begin a transaction of the id with them."""
    async with mirroring() as world:
        await linked(world)
        producer = await init(world)
        go_on = trio.Event()

        async def late(*parts: Any) -> int:
            await go_on.wait()
            return await coordinator_of(*parts)

        monkeypatch.setattr("tidegate_gateway.migration.forward.coordinators.coordinator_of", late)
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
    """An abort without a transaction raises the epoch; the switch may have read the former one."""
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
