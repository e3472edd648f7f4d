"""Connections to the model: faults, and the same bytes for the same seed."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.classic_client import (
    ClassicWorld,
    Closed,
    batch_of,
    classic_world,
    fetching,
    raw_of,
)
from tidegate_simulation.classic.dial import DialFaults
from tidegate_simulation.world.tasks.scheduling import seeded_scheduling

SOUND = batch_of(b"v")


async def test_connections_are_refused_or_never_answered(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.servers.faults[1] = DialFaults(refuse=1.0)
        with pytest.raises(ConnectionRefusedError):
            await world.client()
        world.servers.faults[1] = DialFaults(hang=1.0)
        with trio.move_on_after(60) as scope:
            await world.client()
        assert scope.cancelled_caught
        del world.servers.faults[1]
        assert await (await world.client()).offset("t", -1) == (0, 0)


async def test_connections_break(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        world.servers.faults[1] = DialFaults(reset=1.0, reset_seconds=3.0)
        client = await world.client()
        number = await client.send("Fetch", 12, fetching("t", 0, max_wait_ms=60_000))
        with pytest.raises(Closed):
            await client.receive("Fetch", 12, number)
        assert trio.current_time() < 3
        del world.servers.faults[1]
        client = await world.client()
        assert world.servers.reset(1) == 1
        with pytest.raises((Closed, trio.BrokenResourceError)):
            await client.offset("t", -1)


async def test_connections_hang_and_are_slow(autojump_clock: MockClock) -> None:
    async with classic_world() as world:
        client = await world.client()
        world.servers.slow(1)
        await client.offset("t", -1)
        slow_seconds = trio.current_time()
        assert slow_seconds > 3
        world.servers.hang(1)
        with trio.move_on_after(60) as scope:
            await client.offset("t", -1)
        assert scope.cancelled_caught
        world.servers.flow(1)
        assert await (await world.client()).offset("t", -1) == (0, 0)


async def _talk(world: ClassicWorld, rng: Random) -> list[object]:
    """A minute of a writer and a reader on connections with faults."""
    heard: list[object] = []
    world.servers.latency_seconds = 0.2
    world.servers.faults[1] = DialFaults(refuse=0.2, reset=0.5, slow=0.2)

    async def write() -> None:
        for number in range(30):
            try:
                client = await world.client()
                answer = await client.produce("t", batch_of(b"%d" % number))
                heard.append((trio.current_time(), answer.error_code, answer.base_offset))
            except (ConnectionRefusedError, Closed, trio.BrokenResourceError) as error:
                heard.append((trio.current_time(), type(error).__name__))
            await trio.sleep(rng.random())

    async def read() -> None:
        while True:
            try:
                client = await world.client()
                found = await client.fetch("t", 0, max_wait_ms=500, min_bytes=1 << 20)
                heard.append((trio.current_time(), raw_of(found)))
            except (ConnectionRefusedError, Closed, trio.BrokenResourceError) as error:
                heard.append((trio.current_time(), type(error).__name__))
                await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await write()
        nursery.cancel_scope.cancel()
    return heard


def _run(seed: int) -> list[object]:
    async def main() -> list[object]:
        async with classic_world((1, 2), seed=seed) as world:
            return await _talk(world, Random(seed))

    with seeded_scheduling(seed):
        return trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_seed_gives_the_same_bytes_at_the_same_times() -> None:
    first, again, other = _run(5), _run(5), _run(6)
    assert first == again
    assert first != other
    assert {type(each) for each in first} == {tuple}
