"""The bounds of read-ahead, and the errors that it survives."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.worlds.fetch_world import World, batch, fetch_world
from tidegate_gateway.fetch import read_ahead
from tidegate_gateway.fetch.read_ahead import PARTITION_RUNS
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_storage.stores.object_store import StoreMisconfigured


async def write_runs(world: World, count: int) -> None:
    """Write runs, each to another object, none of them in memory."""
    for _ in range(count):
        await world.write(("t", 0, batch("x" * 1000)))


async def test_credentials_that_expired_end_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(key: str, start: int, length: int) -> bytes:
        raise StoreMisconfigured("renew the credentials")

    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await world.create("t")
        await write_runs(world, 3)
        with monkeypatch.context() as patch:
            patch.setattr(world.store, "get_range", refuse)
            world.read_ahead.want([(world.partition("t"), 0)])
            await wait_all_tasks_blocked()
            assert (await world.fetch("t", 0)).error_code == E.KAFKA_STORAGE_ERROR
        world.read_ahead.want([(world.partition("t"), 0)])
        await wait_all_tasks_blocked()
        rows = world.partition("t").runs
        assert all(world.reader.is_in_memory(rows[index]) for index in range(3))
        nursery.cancel_scope.cancel()


async def test_no_worker_is_lost_when_all_end_at_one_moment(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "STEP_RUNS", 1)
    monkeypatch.setattr(read_ahead, "PARTITION_RUNS", 2)
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await world.create("t")
        await write_runs(world, 8)
        world.store.seconds = 1.0
        for first in range(0, 8, 2):
            world.read_ahead.want([(world.partition("t"), first)])
            await trio.sleep(0.5)
            assert len(world.store.reads) == first + 2
            await trio.sleep(5)
        nursery.cancel_scope.cancel()


async def test_small_runs_are_bounded_by_number(autojump_clock: MockClock) -> None:
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await world.create("t")
        await write_runs(world, PARTITION_RUNS + 10)
        world.read_ahead.want([(world.partition("t"), 0)])
        await wait_all_tasks_blocked()
        assert len(world.store.reads) == PARTITION_RUNS
        nursery.cancel_scope.cancel()


async def test_waiting_read_ahead_is_bounded_in_number(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "MAX_RUNS", 5)
    monkeypatch.setattr(read_ahead, "PARTITION_RUNS", 2)
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        await world.create("t")
        await write_runs(world, 20)
        world.read_ahead.want([(world.partition("t"), first) for first in range(0, 20, 2)])
        nursery.start_soon(world.read_ahead.run)
        await wait_all_tasks_blocked()
        assert len(world.store.reads) == 6
        nursery.cancel_scope.cancel()


async def test_a_reader_is_noted_while_no_more_can_wait(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the reader would count as gone.

    Then runs that it still needs would be dropped after faster readers.
    """
    monkeypatch.setattr(read_ahead, "MAX_RUNS", 1)
    async with fetch_world() as [world]:
        await world.create("t", 2)
        for index in range(2):
            for _ in range(3):
                await world.write(("t", index, batch("x" * 1000)))
        spent: list[object] = []
        monkeypatch.setattr(world.reader, "spend", spent.append)
        both = [world.partition("t", index) for index in range(2)]

        def goes_on(reader: str, offset: int) -> None:
            places = both if reader == "slow" else reversed(both)
            world.read_ahead.want([(each, offset) for each in places], reader)

        for _ in range(3):
            goes_on("slow", 0)
            goes_on("fast", 0)
            await trio.sleep(6)
        goes_on("fast", 3)
        assert not spent


async def test_a_fetch_of_many_partitions_looks_at_few_runs(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "LOOKED_AT_RUNS", 5)
    async with fetch_world() as [world], trio.open_nursery() as nursery:
        nursery.start_soon(world.read_ahead.run)
        await world.create("t")
        await write_runs(world, 4)
        world.read_ahead.want([(world.partition("t"), 0), (world.partition("t"), 0)])
        await wait_all_tasks_blocked()
        assert len(world.store.reads) == 4
        looked_at: list[object] = []

        def note(row: object) -> bool:
            looked_at.append(row)
            return True

        monkeypatch.setattr(world.reader, "is_in_memory", note)
        world.read_ahead.want([(world.partition("t"), 0)] * 3)
        assert len(looked_at) == 5
        nursery.cancel_scope.cancel()
