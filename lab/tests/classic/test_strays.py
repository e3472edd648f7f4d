"""Records that clients write to the source of a switched topic are counted while they stay."""

from __future__ import annotations

import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tidegate_coordination.rules.migration.returns import EndReverse, ReverseTopics
from tidegate_gateway.migration.back.source_watch import SourceWatch

from .test_mirrors import World, becomes, mirroring
from .test_returns import end, here, left, opened, propose
from .test_switches import LIMIT, limit, produced


def watch_of(world: World) -> SourceWatch:
    watch = world.gateways[0].gateway.links.running["src"].watch
    assert watch is not None
    return watch


async def stray(world: World, count: int) -> None:
    """Write to the source although it is fenced, as if a slow broker appended late."""
    for _ in range(count):
        world.write(1)
    await becomes(lambda: watch_of(world).strays.get(("t", 0)) == count)


async def refused(world: World) -> None:
    """Try to write back; the strays forbid it."""
    assert await propose(world, ReverseTopics("src", ("t",))) == ["t"]
    await becomes(lambda: not left(world).reached)
    assert "the source has" in left(world).problem


async def test_strays_stay_counted_after_a_refused_rollback(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await here(world)
        await stray(world, 21)
        for _ in range(30):
            await produced(world)
        assert end(world) > world.log().end_offset
        await refused(world)
        await trio.sleep(5)
        assert watch_of(world).strays == {("t", 0): 21}


async def test_strays_below_the_end_of_what_is_here_are_counted_after_a_write_back(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        await opened(world)
        await produced(world)
        await becomes(lambda: left(world).reached == (2, 0))
        assert await propose(world, EndReverse("src")) == ["t"]
        await becomes(lambda: limit(world) == "0")
        for _ in range(30):
            await produced(world)
        await trio.sleep(5)
        assert watch_of(world).strays == {}
        world.source.set_config("t", LIMIT, None, 0)
        with capture_logs() as logs:
            await stray(world, 3)
        told = [each["first_offset"] for each in logs if "after the switch" in each["event"]]
        assert told[:1] == [2]
        await trio.sleep(5)
        assert watch_of(world).strays == {("t", 0): 3}


async def test_another_gateway_that_watches_counts_the_same_strays(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        await stray(world, 2)
        for _ in range(9):
            await produced(world)
        await refused(world)
        await world.gateway()
        await world.gateways[0].drain()
        watch = world.gateways[1].gateway.links.running["src"].watch
        assert watch is not None
        await becomes(lambda: watch.strays == {("t", 0): 2})


async def test_a_source_with_strays_is_not_opened_for_a_rollback(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        await stray(world, 2)
        limits = list[str | None]()

        async def look() -> None:
            while True:
                limits.append(limit(world))
                await trio.sleep(0.05)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await refused(world)
            nursery.cancel_scope.cancel()
        assert set(limits) == {"0"}


async def test_the_log_tells_an_opened_source_from_a_mended_fence(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        with capture_logs() as logs:
            await opened(world)
        events = [each["event"] for each in logs]
        assert "a source is opened to write back" in events
        assert "the source's fences are mended" not in events
