"""The GETs of Java's consumers: WAL objects of 16 partitions, read cold."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import trio
from trio.testing import MockClock

from tests.worlds.clients.java_consumer import JavaConsumer
from tests.worlds.fetch_world import Store, World, batch, records_of
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.fetch.fetch_plan import FetchSettings
from tidegate_gateway.fetch.lending.object_asks import ObjectAsk
from tidegate_gateway.fetch.read_ahead import ReadAhead
from tidegate_simulation.world.tasks.scheduling import seeded_scheduling

MIB = 1 << 20
PARTITIONS = 16
OBJECTS = 80
GET_SECONDS = 0.01
STORE_BYTES_PER_SECOND = 300e6
READER_BYTES_PER_SECOND = 150e6


class NobodyNear:
    """Peers of a gateway that is the only one of its zone."""

    async def lend(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> bytes | None:
        raise AssertionError("there is no other gateway")

    async def doubt(self, gateway: Gateway, ask: ObjectAsk, timeout_seconds: float) -> None:
        raise AssertionError("there is no other gateway")


class SlowStore(Store):
    """A store that answers after a while, one request after another."""

    def __init__(self) -> None:
        super().__init__()
        self._line = trio.Lock()

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        await trio.sleep(GET_SECONDS)
        async with self._line:
            await trio.sleep(length / STORE_BYTES_PER_SECOND)
        return await super().get_range(key, start, length)


async def got_by_stored(cache_bytes: int, speeds: Sequence[float]) -> float:
    """Let groups of these speeds read a topic; return read bytes, divided by stored bytes."""
    log, store = MemoryLog(), SlowStore()
    world = World(log, store, 1, FetchSettings(), cache_bytes, peers=NobodyNear())
    ahead = ReadAhead(world.reader, max_bytes=cache_bytes // 4, room_bytes=cache_bytes // 2)
    world.use_read_ahead(ahead)
    with trio.fail_after(600):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.coordinator.run)
            nursery.start_soon(ahead.run)
            await world.register()
            await world.create("t", PARTITIONS)
            stored = await fill(world)
            store.reads.clear()
            async with trio.open_nursery() as groups:
                for speed in speeds:
                    reader = JavaConsumer(world, "t", speed * READER_BYTES_PER_SECOND)
                    groups.start_soon(reader.run)
            nursery.cancel_scope.cancel()
    return sum(length for _, _, length in store.reads) / stored


async def fill(world: World) -> int:
    """Write objects with a slice of 100 KiB of each partition; return their bytes."""
    raw = batch("x" * (50 << 10))
    for _ in range(OBJECTS):
        await world.write(*[("t", index, raw) for index in range(PARTITIONS) for _ in (0, 1)])
    return OBJECTS * PARTITIONS * 2 * len(raw)


async def test_one_group_gets_each_object_once(autojump_clock: MockClock) -> None:
    assert await got_by_stored(96 * MIB, [1.0]) < 1.05


async def test_groups_that_start_together_get_each_object_once(autojump_clock: MockClock) -> None:
    assert await got_by_stored(96 * MIB, [1.0, 1.0, 0.97]) < 1.2


def test_groups_that_drift_apart_read_no_more_than_each_alone() -> None:
    """The median of nine task orders counts.

    One order in ten reads up to 4.3 times the stored bytes.
    """
    found: list[float] = []
    for seed in range(9):
        with seeded_scheduling(seed):
            clock = MockClock(autojump_threshold=0)
            found.append(trio.run(got_by_stored, 64 * MIB, [1.0, 0.7, 0.4], clock=clock))
    assert median(found) < 3


async def test_ranges_that_a_get_brought_for_other_partitions_are_served_at_once() -> None:
    """One GET brings the runs of all partitions, so no partition falls behind the others."""
    log, store = MemoryLog(), SlowStore()
    world = World(log, store, 1, FetchSettings(), 64 * MIB, peers=NobodyNear())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.coordinator.run)
        await world.register()
        await world.create("t", 2)
        await world.write(("t", 0, batch("a")), ("t", 1, batch("b")))
        await world.write(("t", 1, batch("c")))
        await world.fetch("t", 0)
        assert len(store.reads) == 1
        answer = await world.fetch("t", 0, partition=1, max_wait_ms=0)
        assert len(store.reads) == 1
        nursery.cancel_scope.cancel()
    assert records_of(answer) == [(0, "b")]
