"""Groups of the model whose coordinator stops, loses them, or still reads them from its log.

With three brokers, broker 2 coordinates the group "g".  If broker 1 or 2 stops, broker 3 does.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.classic_client import ClassicWorld, Closed, classic_world
from tests.worlds.classic_members import (
    GROUP,
    SESSION_SECONDS,
    described,
    join_together,
    member,
    stable_group,
    sync_together,
)
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import join_group as jg
from tidegate_simulation.world.tasks.scheduling import seeded_scheduling

NONE = ErrorCode.NONE
BROKERS = (1, 2, 3)


async def test_members_continue_after_their_coordinator_stopped(autojump_clock: MockClock) -> None:
    async with classic_world(BROKERS) as world:
        members = await stable_group(world, None, "two")
        assert await members[0].commit(7) == NONE
        await trio.sleep(SESSION_SECONDS - 1)
        world.servers.stop_broker(2)
        with pytest.raises((Closed, trio.BrokenResourceError)):
            await members[0].heartbeat()
        await trio.sleep(SESSION_SECONDS - 1)  # the new coordinator counts the sessions anew
        assert world.cluster.coordinator_of(GROUP) == 3
        for each in members:
            await each.connect(world)
            assert await each.heartbeat() == NONE
        assert await members[1].sync() == NONE
        assert members[1].assignment == members[1].member_id.encode()
        assert await members[0].commit(8) == NONE
        assert (await described(world)).group_state == "Stable"


async def test_members_can_expire_at_a_new_coordinator(autojump_clock: MockClock) -> None:
    async with classic_world(BROKERS) as world:
        await stable_group(world, None)
        world.servers.stop_broker(2)
        await trio.sleep(SESSION_SECONDS)
        assert (await described(world)).group_state == "Empty"


async def test_members_that_expired_before_a_move_stay_away(autojump_clock: MockClock) -> None:
    async with classic_world(BROKERS) as world:
        await stable_group(world, None)
        await trio.sleep(SESSION_SECONDS)
        world.servers.stop_broker(2)
        assert (await described(world)).group_state == "Empty"


async def test_sessions_do_not_run_while_no_broker_runs(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        [only] = await stable_group(world, None)
        world.servers.stop_broker(1)
        await trio.sleep(3_600)
        world.servers.start_broker(1)
        await only.connect(world)
        assert await only.heartbeat() == NONE


async def test_parked_joins_end_when_a_broker_loses_the_group(autojump_clock: MockClock) -> None:
    async with classic_world(BROKERS) as world:
        first, second = await stable_group(world, None, None)
        third = await member(world)
        await third.join_once()
        number = await third.client.send("JoinGroup", 9, third.join_request())
        await wait_all_tasks_blocked()
        assert await first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        began = trio.current_time()
        world.servers.stop_broker(1)
        answer: jg.JoinGroupResponse = await third.client.receive("JoinGroup", 9, number)
        assert (answer.error_code, trio.current_time()) == (ErrorCode.NOT_COORDINATOR, began)
        assert await first.heartbeat() == ErrorCode.NOT_COORDINATOR
        for each in (first, second, third):
            await each.connect(world)
        assert [await each.heartbeat() for each in (first, second)] == [NONE, NONE]
        assert (await third.join_once()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_parked_joins_end_when_a_broker_comes_back(autojump_clock: MockClock) -> None:
    async with classic_world(BROKERS) as world:
        world.servers.stop_broker(1)
        [first] = await stable_group(world, None)
        second = await member(world)
        await second.join_once()
        number = await second.client.send("JoinGroup", 9, second.join_request())
        await wait_all_tasks_blocked()
        world.servers.start_broker(1)
        answer: jg.JoinGroupResponse = await second.client.receive("JoinGroup", 9, number)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        await first.connect(world)
        assert await first.heartbeat() == NONE


async def test_parked_syncs_end_when_a_broker_loses_the_group(autojump_clock: MockClock) -> None:
    async with classic_world(BROKERS) as world:
        first, second = await stable_group(world, None, None)
        third = await member(world)
        await join_together(third, first, second)
        assert third.generation == 2
        codes: list[int] = []

        async def sync() -> None:
            codes.append(await second.sync())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync)
            await wait_all_tasks_blocked()
            world.servers.stop_broker(1)
        assert codes == [ErrorCode.NOT_COORDINATOR]
        for each in (first, second, third):
            await each.connect(world)
        assert await first.heartbeat() == ErrorCode.ILLEGAL_GENERATION
        assert await third.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert await first.heartbeat(generation_id=1) == NONE  # the last generation in the log
        first.generation = second.generation = 1
        assert await second.sync() == NONE
        assert second.assignment == second.member_id.encode()


async def test_a_group_that_is_loading_answers_nothing_yet(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        first, second = await stable_group(world, None, None)
        number = await first.client.send("JoinGroup", 9, first.join_request())
        await wait_all_tasks_blocked()
        world.cluster.begin_loading(GROUP, trio.current_time())
        answer = await first.client.receive("JoinGroup", 9, number)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        await trio.sleep(SESSION_SECONDS - 1)
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await second.heartbeat() == NONE  # as in Kafka
        assert (await second.join_once()).error_code == loading
        assert (await second.sync(), await second.commit(1)) == (loading, loading)
        assert (await described(world)).error_code == loading
        await trio.sleep(SESSION_SECONDS)
        world.cluster.end_loading(GROUP, trio.current_time())
        await trio.sleep(SESSION_SECONDS - 1)
        assert [await each.heartbeat() for each in (first, second)] == [NONE, NONE]


async def test_a_group_works_on_after_each_move(autojump_clock: MockClock) -> None:
    async with classic_world(BROKERS) as world:
        members = await stable_group(world, None, None)
        for generation, node_id in enumerate((2, 3, 1), start=2):
            await _restart(world, node_id)
            for each in members:
                await each.connect(world)
            await join_together(*members)
            assert [each.generation for each in members] == [generation, generation]
            await sync_together(*members, leader=members[0])


async def _restart(world: ClassicWorld, node_id: int) -> None:
    world.servers.stop_broker(node_id)
    await trio.sleep(2)
    world.servers.start_broker(node_id)


def _run(seed: int) -> list[tuple[float, object, int]]:
    """Return who joined and synced when, while coordinators move."""
    heard: list[tuple[float, object, int]] = []

    async def take_part(world: ClassicWorld) -> None:
        each = await member(world)
        while True:
            joined = await each.join()
            heard.append((trio.current_time(), each.member_id, joined.error_code))
            if not joined.error_code:
                heard.append((trio.current_time(), each.generation, await each.sync({})))
            if joined.error_code == ErrorCode.NOT_COORDINATOR:
                await each.connect(world)
            if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                each.member_id = ""
            await trio.sleep(1)

    async def main() -> None:
        async with classic_world(BROKERS, seed=seed) as world, trio.open_nursery() as nursery:
            world.servers.latency_seconds = 0.3
            for _ in range(4):
                nursery.start_soon(take_part, world)
            for _ in range(5):
                await trio.sleep(7)
                await _restart(world, 1)
            nursery.cancel_scope.cancel()

    with seeded_scheduling(seed):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    return heard


def test_a_seed_gives_the_same_members_at_the_same_times() -> None:
    first, again, other = _run(5), _run(5), _run(6)
    assert first == again
    assert first != other
    assert {NONE, ErrorCode.NOT_COORDINATOR} <= {code for _, _, code in first}
