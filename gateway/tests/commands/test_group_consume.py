"""`tidegate topic consume --group`: each record once, or again after a crash; none is missed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.kafka_world import KafkaWorld, kafka_world
from tidegate_coordination.client.errors import Disconnected
from tidegate_coordination.client.failed import Failed
from tidegate_coordination.client.groups.group_calls import Group, group_of, lag_of
from tidegate_coordination.client.groups.group_member import GroupMember
from tidegate_coordination.client.groups.group_reading import COMMIT_SECONDS
from tidegate_coordination.client.topic_calls import add_partitions
from tidegate_gateway.cli.topic.consume import ConsumeOptions, consume
from tidegate_runtime.settings_texts import BadSource


class Member:
    """A running command.  printed: its records as `partition:offset`."""

    def __init__(self, world: KafkaWorld, **options: Any) -> None:
        self.world = world
        self.options = ConsumeOptions("orders", group="g", **options)
        self.printed: list[str] = []
        self.may_print = trio.Event()
        self.may_print.set()
        self.scope = trio.CancelScope()
        self.code: int | None = None

    async def run(self) -> None:
        async def write(data: bytes) -> None:
            await self.may_print.wait()
            self.printed += [each.split(b"  ")[0].decode() for each in data.splitlines()]

        with self.scope:
            self.code = await consume(self.world.client(), self.options, write, is_terminal=False)


async def consumed(world: KafkaWorld, **options: Any) -> list[str]:
    member = Member(world, **options)
    await member.run()
    assert member.code == 0
    return member.printed


async def lags(world: KafkaWorld) -> dict[int, int | None]:
    return {each.partition: each.lag for each in await lag_of(world.cluster, await group(world))}


async def group(world: KafkaWorld) -> Group:
    return await group_of(world.cluster, "g")


async def until(found: Callable[[], bool]) -> None:
    with trio.fail_after(300):
        while not found():  # noqa: ASYNC110 - commands print, and set no event
            await trio.sleep(0.1)


async def until_members(world: KafkaWorld, count: int) -> None:
    with trio.fail_after(300):
        while len((await group(world)).members) != count:  # noqa: ASYNC110 - a group sets no event
            await trio.sleep(0.1)


ALL = {f"{partition}:{offset}" for partition in range(4) for offset in range(10)}


@asynccontextmanager
async def filled(partitions: int = 4) -> AsyncIterator[KafkaWorld]:
    """A gateway whose topic has ten records in each partition."""
    async with kafka_world() as world:
        await world.wire.create_topic("orders", partitions)
        for partition in range(partitions):
            await world.write("orders", b"v\n" * 10, partition=partition)
        yield world


@asynccontextmanager
async def following(world: KafkaWorld) -> AsyncIterator[Member]:
    """A member that has printed ALL, and waits for more until the block ends."""
    member = Member(world, follows=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        await until(lambda: len(member.printed) == len(ALL))
        yield member
        member.scope.cancel()


def before_each_call(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[str, Any], Awaitable[None]]
) -> list[str]:
    """Await act() before each request of a member; it may wait, raise, or change the request.

    Return a list, to which the name of each request is added.
    """
    calls: list[str] = []
    ask = GroupMember._ask

    async def told(self: GroupMember, name: str, request: Any, **options: Any) -> Any:
        calls.append(name)
        await act(name, request)
        return await ask(self, name, request, **options)

    monkeypatch.setattr(GroupMember, "_ask", told)
    return calls


async def test_a_group_goes_on_where_it_ended(autojump_clock: MockClock) -> None:
    async with filled() as world:
        first = await consumed(world, most=13)
        assert len(first) == 13
        assert sum(filter(None, (await lags(world)).values())) == 27
        assert not (await group(world)).members
        # The group continues in the middle of a batch.
        second = await consumed(world)
        assert Counter([*first, *second]) == Counter(ALL)
        assert set((await lags(world)).values()) == {0}
        assert await consumed(world) == []


async def test_from_is_for_partitions_without_an_offset(autojump_clock: MockClock) -> None:
    async with filled() as world:
        assert await consumed(world, start="latest") == []
        await world.write("orders", b"new\n", partition=1)
        # The first call has committed its start offsets.
        assert await consumed(world, start="latest") == ["1:10"]


async def test_an_offset_beyond_the_end_is_said(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    told = (
        "partition 1 ends before offset 99, which the group has committed: `tidegate group seek`"
        " moves the group"
    )
    async with filled() as world:
        assert await GroupMember(world.cluster, "g", "orders").commit({1: 99})
        assert set(await consumed(world)) == {each for each in ALL if each[0] != "1"}
        assert capsys.readouterr().err == f"tidegate: {told}\n"
        with pytest.raises(Failed, match=told):
            await consumed(world, follows=True)


async def test_a_second_member_takes_over_what_the_first_has_not_printed(
    autojump_clock: MockClock,
) -> None:
    async with filled() as world:
        one, two = Member(world, follows=True), Member(world, follows=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run)
            await until(lambda: len(one.printed) == 40)
            # These records are printed, but not committed yet, when the second member joins.
            await world.write("orders", b"v\n" * 5, partition=3)
            nursery.start_soon(two.run)
            await until_members(world, 2)
            await trio.sleep(10)
            assert two.printed == []  # no record twice
            for partition in range(4):
                await world.write("orders", b"w\n", partition=partition)
            await until(lambda: len(one.printed) + len(two.printed) == 49)
            assert {each[0] for each in one.printed[-2:]} | {each[0] for each in two.printed} == {
                *"0123"
            }
            assert len(two.printed) == 2
            two.scope.cancel()
            await trio.sleep(10)
            # The first member reads all partitions again.
            for partition in range(4):
                await world.write("orders", b"x\n", partition=partition)
            await until(lambda: len(one.printed) + len(two.printed) == 53)
            one.scope.cancel()
        assert max(Counter([*one.printed, *two.printed]).values()) == 1
        assert set((await lags(world)).values()) == {0}


async def test_a_commit_precedes_the_next_join(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(name: str, request: Any) -> None:
        await trio.lowlevel.checkpoint()

    calls = before_each_call(monkeypatch, nothing)
    monkeypatch.setattr("tidegate_coordination.client.groups.group_reading.COMMIT_SECONDS", 1e9)
    async with filled() as world, trio.open_nursery() as nursery, following(world) as one:
        calls.clear()
        await world.write("orders", b"v\n", partition=0)
        await until(lambda: len(one.printed) == 41)
        nursery.start_soon(world.join, "g", "orders", [0])
        await until(lambda: "JoinGroup" in calls)
    told_calls = [each for each in calls[: calls.index("JoinGroup")] if each != "Heartbeat"]
    assert told_calls == ["OffsetCommit"]


async def test_more_members_than_partitions(autojump_clock: MockClock) -> None:
    async with filled(partitions=1) as world:
        one, two = Member(world, follows=True), Member(world, follows=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run)
            nursery.start_soon(two.run)
            await until(lambda: len(one.printed) + len(two.printed) == 10)
            await until_members(world, 2)
            await trio.sleep(5)
            reader = next(m for m in (await group(world)).members if m.assigned)
            assert reader.assigned == (("orders", 0),)
            for each in (one, two):
                await world.write("orders", b"v\n")
                await trio.sleep(5)
                each.scope.cancel()
                await trio.sleep(5)
        assert len({*one.printed, *two.printed}) == 12


async def test_partitions_that_are_added_are_read(autojump_clock: MockClock) -> None:
    async with filled() as world:
        async with following(world) as one:
            await add_partitions(world.cluster, "orders", 6)
            await world.cluster.refresh(["orders"])
            await world.write("orders", b"v\n", partition=5)
            await until(lambda: "5:0" in one.printed)
        assert Counter(one.printed) == Counter({*ALL, "5:0"})


async def test_a_member_that_is_forgotten_joins_again(autojump_clock: MockClock) -> None:
    async with filled() as world:
        async with following(world) as one:
            await trio.sleep(2 * COMMIT_SECONDS)
            [member] = (await group(world)).members
            # Remove the member, as the coordinator does after a session timeout.
            other = GroupMember(world.cluster, "g", "orders")
            other._member_id = member.member_id
            await other.leave()
            assert not (await group(world)).members
            await world.write("orders", b"v\n")
            await until(lambda: len(one.printed) >= 41)
            await until_members(world, 1)
        assert set(one.printed) > ALL


async def test_partitions_that_were_lost_are_not_read_on(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without heartbeats the commit is the first request that shows the change of the group."""
    monkeypatch.setattr("tidegate_coordination.client.groups.group_member.HEARTBEAT_SECONDS", 1e9)
    monkeypatch.setattr("tidegate_coordination.client.groups.group_reading.COMMIT_SECONDS", 0.0)

    async def as_another(name: str, request: Any) -> None:
        await trio.lowlevel.checkpoint()
        if name == "OffsetCommit" and calls.count(name) == 1:
            request.generation_id_or_member_epoch = 99

    calls = before_each_call(monkeypatch, as_another)
    async with filled() as world:
        assert set(await consumed(world)) == ALL
    lost = calls.index("OffsetCommit")
    assert calls[lost : lost + 2] == ["OffsetCommit", "JoinGroup"]
    assert capsys.readouterr().err.count("the group changed before a commit") == 1


async def test_what_was_not_committed_is_read_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filled() as world:

        async def lost(self: GroupMember, offsets: object) -> bool:
            raise Disconnected("the coordinator is gone")

        with monkeypatch.context() as patch:
            patch.setattr(GroupMember, "commit", lost)
            member = Member(world)
            with pytest.raises(Disconnected):
                await member.run()
        assert member.printed
        assert set(await consumed(world)) == ALL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_commits_and_leaves(number: int, autojump_clock: MockClock) -> None:
    async with filled() as world:
        async with following(world) as one:
            os.kill(os.getpid(), number)
            await until(lambda: one.code is not None)
        assert one.code == 128 + number
        assert not (await group(world)).members
        assert set((await lags(world)).values()) == {0}


async def test_a_member_whose_output_is_blocked_stays_and_ends_at_a_signal(
    autojump_clock: MockClock,
) -> None:
    async with filled() as world, trio.open_nursery() as nursery:
        member = Member(world, follows=True)
        member.may_print = trio.Event()
        nursery.start_soon(member.run)
        await until_members(world, 1)
        [before] = (await group(world)).members
        await trio.sleep(600)  # much longer than a session timeout
        assert [each.member_id for each in (await group(world)).members] == [before.member_id]
        os.kill(os.getpid(), signal.SIGINT)
        await until_members(world, 0)
        assert member.printed == []
        assert set(await consumed(world)) == ALL
    assert member.code == 128 + signal.SIGINT


async def test_a_member_that_cannot_commit_at_its_end_says_so(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    is_lost = False

    async def fail(name: str, request: Any) -> None:
        await trio.lowlevel.checkpoint()
        if is_lost and name == "OffsetCommit":
            raise Disconnected("it closed")

    before_each_call(monkeypatch, fail)
    async with filled() as world, following(world) as one:
        is_lost = True
        await world.write("orders", b"v\n")
        await until(lambda: len(one.printed) == 41)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: one.code is not None)
    assert one.code == 128 + signal.SIGTERM
    assert "the coordinator did not answer in time: the last offsets may not be committed" in (
        capsys.readouterr().err
    )


async def test_what_cannot_be_done_is_a_sentence(autojump_clock: MockClock) -> None:
    async with filled() as world:
        with pytest.raises(BadSource, match="share its partitions"):
            await Member(world, partitions=(1,)).run()
        member = Member(world)
        member.options = ConsumeOptions("missing", group="g")
        with pytest.raises(Failed, match="missing"):
            await member.run()
