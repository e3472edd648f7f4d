"""Groups and their members, through the handlers, a real coordinator and the log in memory."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from tests.worlds.group_world import NONE, Clock, cluster
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.settings import GroupSettings
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.groups.group_timers import TICK_AGAIN_SECONDS
from tidegate_protocol.error_codes import ErrorCode


async def test_group_lives_through_join_sync_heartbeat_and_leave(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        member, generation = await gateway.stable()
        assert member.startswith("client-")
        assert await gateway.heartbeat(member, generation) == NONE
        seen = await gateway.describe()
        assert (seen.group_state, seen.protocol_data) == ("Stable", "range")
        assert seen.members[0].member_assignment == b"A"
        assert seen.members[0].client_host == "/127.0.0.1"
        assert (await gateway.leave((member, None))).members[0].error_code == NONE
        assert (await gateway.describe()).group_state == "Empty"
        assert await gateway.delete() == NONE
        assert await gateway.delete() == ErrorCode.GROUP_ID_NOT_FOUND


async def test_two_members_wait_for_each_other(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        first, _ = await gateway.stable()
        asked = await gateway.join()
        answers: dict[str, Any] = {}

        async def join(member_id: str) -> None:
            answers[member_id] = await gateway.join(member_id)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join, asked.member_id)
            await trio.testing.wait_all_tasks_blocked()
            assert await gateway.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
            nursery.start_soon(join, first)
        assert {each.generation_id for each in answers.values()} == {2}
        assert len(answers[first].members) == 2
        assert answers[asked.member_id].members == []
        parts: dict[str, bytes] = {}

        async def sync(member_id: str, assignments: dict[str, bytes]) -> None:
            parts[member_id] = (
                await gateway.sync(member_id, 2, assignments=assignments)
            ).assignment

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync, asked.member_id, {})
            nursery.start_soon(sync, first, {first: b"1", asked.member_id: b"2"})
        assert parts == {first: b"1", asked.member_id: b"2"}


@pytest.mark.parametrize("version", range(10))
async def test_every_version_of_join(autojump_clock: Clock, version: int) -> None:
    async with cluster() as [gateway]:
        answer = await gateway.join(version=version)
        if version >= 4:
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            answer = await gateway.join(answer.member_id, version=version)
        assert (answer.error_code, answer.generation_id) == (NONE, 1)
        refused = await gateway.join("stranger", version=version)
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_first_rebalance_waits_for_the_delay(autojump_clock: Clock) -> None:
    settings = GroupSettings(initial_rebalance_delay_ms=3000)
    async with cluster(settings=settings) as [gateway]:
        began = trio.current_time()
        await gateway.stable()
        assert 3.0 <= trio.current_time() - began < 3.5


async def test_silent_member_expires(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        member, generation = await gateway.stable()
        await trio.sleep(9.9)
        assert await gateway.heartbeat(member, generation) == NONE
        await trio.sleep(10.2)
        assert await gateway.heartbeat(member, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await gateway.describe()).group_state == "Empty"
        group = gateway.coordinator.state.groups.get("g")
        assert group is not None
        assert group.members == ()
        await trio.sleep(1.5)
        assert gateway.groups._groups.get("g") is None  # an idle group is dropped from memory


async def test_a_tick_that_fails_comes_again(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster() as [gateway]:
        await gateway.stable()

        def tick(machine: ClassicGroup, now: float) -> None:
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(ClassicGroup, "tick", tick)
        with pytest.raises(ZeroDivisionError):
            gateway.groups._groups._timers.tick_due(trio.current_time() + 60)
        monkeypatch.undo()
        await trio.sleep(60 + 2 * TICK_AGAIN_SECONDS)
        assert (await gateway.describe()).group_state == "Empty"


async def test_made_up_group_leaves_nothing_behind(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.join(group_id="made up")
        assert gateway.coordinator.state.claims.get("group/made up") is not None
        await trio.sleep(12)
        assert gateway.coordinator.state.claims.get("group/made up") is None
        assert await gateway.listed() == {}


async def test_empty_group_id(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        assert (await gateway.join(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
        assert await gateway.heartbeat("m", 1, group="") == ErrorCode.INVALID_GROUP_ID
        assert await gateway.delete("") == ErrorCode.GROUP_ID_NOT_FOUND
        assert await gateway.commit({("orders", 0): 3}, group_id="") == {("orders", 0): 0}
        assert await gateway.delete("") == ErrorCode.NONE
        assert await gateway.delete("") == ErrorCode.GROUP_ID_NOT_FOUND


async def test_slow_append_of_one_group_delays_no_heartbeat(autojump_clock: Clock) -> None:
    log = FaultyLog(MemoryLog(), LogFaults(), Random(1))
    async with cluster(log=log) as [gateway]:
        member, generation = await gateway.stable("other group")
        asked = await gateway.join()
        joined = await gateway.join(asked.member_id)
        log.faults = LogFaults(lost_append=1.0)
        async with trio.open_nursery() as nursery:
            answers: list[Any] = []

            async def sync() -> None:
                answers.append(
                    await gateway.sync(joined.member_id, 1, assignments={joined.member_id: b"slow"})
                )

            nursery.start_soon(sync)
            await trio.testing.wait_all_tasks_blocked()
            assert await gateway.heartbeat(member, generation, "other group") == NONE
            assert not answers
            log.faults = LogFaults()
        assert answers[0].assignment == b"slow"


async def test_group_with_members_is_not_deleted(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.stable()
        assert await gateway.delete() == ErrorCode.NON_EMPTY_GROUP


async def test_unknown_group_is_dead(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        for version in range(7):
            seen = await gateway.describe("nobody", version)
            code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else NONE
            assert (seen.group_state, seen.error_code) == ("Dead", code)


async def test_groups_are_listed_by_state_and_type(autojump_clock: Clock) -> None:
    async with cluster() as [gateway]:
        await gateway.stable()
        await gateway.commit({("orders", 0): 1}, group_id="simple")
        assert await gateway.listed() == {"g": "Stable", "simple": "Empty"}
        assert await gateway.listed(states_filter=["stable"]) == {"g": "Stable"}
        assert await gateway.listed(states_filter=["nonsense"]) == {}
        assert await gateway.listed(types_filter=["Classic"]) == {"g": "Stable", "simple": "Empty"}
        assert await gateway.listed(types_filter=["consumer"]) == {}
        assert (await gateway.listed(version=3)).keys() == {"g", "simple"}
