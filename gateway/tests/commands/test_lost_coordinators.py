"""A member of `tidegate topic consume --group` whose coordinator is lost, moves or is slow."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.commands.test_group_consume import (
    ALL,
    Member,
    before_each_call,
    consumed,
    filled,
    following,
    lags,
    until,
)
from tidegate_coordination.client.errors import Disconnected, Refused
from tidegate_coordination.client.groups.group_member import PATIENCE_SECONDS, GroupMember
from tidegate_coordination.client.wire.connection import BrokerConnection
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.heartbeat import HeartbeatRequest


async def test_a_lost_coordinator_is_looked_for_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = {"JoinGroup": 2, "SyncGroup": 1, "OffsetFetch": 2, "OffsetCommit": 1, "Heartbeat": 1}

    async def fail(name: str, request: Any) -> None:
        await trio.lowlevel.checkpoint()
        if failures.get(name, 0):
            failures[name] -= 1
            if name == "OffsetCommit" or (name == "OffsetFetch" and failures[name]):
                raise Refused("group g", ErrorCode.NOT_COORDINATOR)
            raise Disconnected("it closed")

    before_each_call(monkeypatch, fail)
    async with filled() as world:
        async with following(world) as one:
            await until(lambda: not any(failures.values()))
        assert Counter(one.printed) == Counter(ALL)
        assert set((await lags(world)).values()) == {0}


async def test_a_coordinator_that_goes_away_after_a_long_wait_is_looked_for_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [2 * PATIENCE_SECONDS]

    async def fail_late(name: str, request: Any) -> None:
        if name == "JoinGroup" and waits:
            # The coordinator waited for other members before it failed.
            await trio.sleep(waits.pop())
            raise Disconnected("it closed")

    before_each_call(monkeypatch, fail_late)
    async with filled() as world:
        assert set(await consumed(world)) == ALL


async def test_a_second_failure_has_its_own_patience(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = (1, 4)  # the second JoinGroup gives the member its id, and the third lets it join

    async def fail_twice(name: str, request: Any) -> None:
        await trio.lowlevel.checkpoint()
        if name == "SyncGroup" and calls.count(name) == 1:
            await trio.sleep(2 * PATIENCE_SECONDS)
            request.generation_id = 99  # as if the group changed meanwhile
        elif name == "JoinGroup" and calls.count(name) in failing:
            raise Disconnected("it closed")

    calls = before_each_call(monkeypatch, fail_twice)
    async with filled() as world:
        assert set(await consumed(world)) == ALL


async def test_a_coordinator_that_moved_is_looked_for_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    call = BrokerConnection.call

    async def moved(self: BrokerConnection, name: str, *words: Any, **options: Any) -> Any:
        calls.append(name)
        answer = await call(self, name, *words, **options)
        if name == "OffsetCommit" and calls.count(name) == 1:
            answer.topics[0].partitions[0].error_code = ErrorCode.NOT_COORDINATOR
        return answer

    monkeypatch.setattr(BrokerConnection, "call", moved)
    async with filled() as world:
        assert set(await consumed(world)) == ALL
    refused = calls.index("OffsetCommit")
    again = calls.index("OffsetCommit", refused + 1)
    assert "FindCoordinator" in calls[refused:again]


async def test_no_heartbeat_waits_behind_a_join(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat would time out there, and close the connection on which JoinGroup waits."""

    async def join_again_slowly(name: str, request: Any) -> None:
        if calls.count("SyncGroup") == 1 and name == "SyncGroup":
            raise Disconnected("it closed")
        if "SyncGroup" in calls and name == "JoinGroup":
            await trio.sleep(20)

    calls = before_each_call(monkeypatch, join_again_slowly)
    async with filled() as world:
        assert set(await consumed(world)) == ALL
    again = calls.index("SyncGroup") + 1
    assert calls[again : again + 2] == ["JoinGroup", "SyncGroup"]


async def test_a_coordinator_that_stays_away_is_not_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(name: str, request: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise Disconnected("it closed")

    before_each_call(monkeypatch, fail)
    async with filled() as world:
        began = trio.current_time()
        with pytest.raises(Disconnected):
            await consumed(world)
        assert PATIENCE_SECONDS <= trio.current_time() - began < PATIENCE_SECONDS + 1


async def test_a_member_waits_for_one_that_is_slow_to_join(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow member is like a Java consumer that works within max.poll.interval.ms."""
    async with filled() as world:
        slow = GroupMember(world.client(), "g", "orders")
        member = Member(world)
        with monkeypatch.context() as patch:
            group_member = "tidegate_coordination.client.groups.group_member"
            patch.setattr(f"{group_member}.REBALANCE_SECONDS", 300.0)
            assert await slow.join() == [*range(4)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.run)
            for _ in range(20):
                await trio.sleep(10)
                request = HeartbeatRequest("g", slow._generation, slow._member_id)
                answer = await slow._ask("Heartbeat", request)
                assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
            assert member.code is None
            await slow.leave()
        assert member.code == 0
        assert set(member.printed) == ALL
