"""`tidegate link rollback` writes topics back to a classic cluster, the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.classic.test_returns import (
    at_source,
    fenced,
    here,
    is_back,
    left,
    opened,
    propose,
    returned,
    reverse_of,
)
from tests.worlds.wire_client import records_batch
from tidegate_coordination.rules.migration.returns import EndReverse, ReverseTopics
from tidegate_gateway.cli.link.rollback import Rollback, RollbackOptions, rollback_text, rolled_back
from tidegate_gateway.migration.back.source_watch import SourceWatch
from tidegate_gateway.migration.report import links_report
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_simulation.classic.log.faults import truncate

from .test_mirrors import World, becomes, mirroring
from .test_switches import LIMIT, limit, produced, switched, switches


def options(**changes: Any) -> RollbackOptions:
    plain = RollbackOptions("src", ("t",), max_behind=0, only_reverse=False, cancel=False, yes=True)
    return replace(plain, **changes)


async def rolled(world: World, wanted: RollbackOptions) -> Rollback:
    coordinator = world.gateways[0].gateway.coordinator
    return await rolled_back(coordinator, wanted, is_quiet=True)


async def test_the_command_writes_back_and_returns(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await here(world)
        await produced(world)
        done = await rolled(world, options(only_reverse=True))
        assert (done.reason, is_back(world)) == ("", False)
        await produced(world)
        done = await rolled(world, options())
        assert (done.topics, done.reason, is_back(world)) == (["t"], "", True)
        assert at_source(world) == [(0, -1), (1, -1), (2, -1)]
        again = await rolled(world, options())
        assert again.reason == "t is at its source: this is a copy"
        assert rollback_text(again, options(), are_here=False).endswith("this is a copy.")
        assert "stay this cluster's" in rollback_text(again, options(), are_here=True)


async def test_the_command_says_why_a_topic_stays(autojump_clock: MockClock) -> None:
    async with mirroring() as world:
        await here(world)
        await produced(world)
        for node_id in (1, 2):
            world.servers.stop_broker(node_id)
        assert "got none for 60 s" in (await rolled(world, options())).reason
        with trio.fail_after(10):
            done = await rolled(world, options(max_behind=9))
        assert "t-0 ends at 2, and is written back up to 1" in done.reason
        assert not is_back(world)


async def test_a_source_that_lost_records_gets_no_topic_back(autojump_clock: MockClock) -> None:
    """After an unclean election the source would give old offsets to new records."""
    async with mirroring() as world:
        await here(world, at_source=3)
        truncate(world.log(), 1)
        await opened(world)
        await fenced(world)
        await becomes(lambda: not switches(world).fences)
        assert not is_back(world)
        assert "t-0 ends at 1 at its source, and here at 3" in left(world).problem


async def test_a_topic_returns_once_its_source_is_open(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mirroring() as world:
        await here(world)
        real = SourceWatch._keep_fences

        async def late(self: SourceWatch, *arguments: Any) -> None:
            await trio.sleep(1)
            await real(self, *arguments)

        monkeypatch.setattr(SourceWatch, "_keep_fences", late)
        await propose(world, ReverseTopics("src", ("t",)))
        await fenced(world)
        assert limit(world) == "0"
        await becomes(lambda: not switches(world).fences)
        assert (limit(world), is_back(world)) == (None, True)


async def test_records_that_gateways_wrote_back_are_no_strays(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        await propose(world, ReverseTopics("src", ("t",)))
        await becomes(lambda: left(world).reached == (1, 0) and limit(world) is None)
        await produced(world)
        await becomes(lambda: world.log().end_offset == 2)
        assert left(world).reached == (1, 0)  # the log does not have the last progress yet
        assert await propose(world, EndReverse("src")) == ["t"]
        await becomes(lambda: limit(world) == "0")
        await trio.sleep(5)
        running = world.gateways[0].gateway.links.running["src"]
        assert running.watch is not None
        assert running.watch.strays == {}
        world.source.set_config("t", LIMIT, None, 0)
        world.write(1)
        await becomes(lambda: running.watch is not None and running.watch.strays)


async def test_an_operator_ends_it_and_the_source_is_fenced_again(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        await propose(world, ReverseTopics("src", ("t",)))
        await produced(world)
        await becomes(lambda: left(world).reached == (2, 0))
        assert await propose(world, EndReverse("src")) == ["t"]
        await becomes(lambda: limit(world) == "0")
        await produced(world)
        await trio.sleep(5)
        assert world.log().end_offset == 2
        running = world.gateways[0].gateway.links.running["src"]
        assert running.watch is not None
        assert running.watch.strays == {}


@pytest.mark.parametrize("gateways", [1, 2])
async def test_no_rollback_of_a_topic_waits_for_a_lease(
    autojump_clock: MockClock, gateways: int
) -> None:
    """Many rollbacks, one after the other, wait for no lease while the same gateways run."""
    async with mirroring(gateways=gateways) as world:
        await here(world)
        for index in (0, 1):
            world.source.move_leader("t", index, 2)
        for _ in range(20):
            for index in (0, 1):
                client = world.gateways[0].world.connect()
                assert (
                    await client.produce("t", index, records_batch(b"own"))
                ).error_code == E.NONE
            begun = trio.current_time()
            await returned(world)
            assert trio.current_time() - begun < 6  # a lease has 12 s
            await switched(world)


async def test_a_gateway_that_takes_a_topic_over_says_what_it_waits_for(
    autojump_clock: MockClock,
) -> None:
    async with mirroring() as world:
        await here(world)
        await opened(world)
        await becomes(lambda: reverse_of(world).position == 1)
        second = await world.gateway()
        await world.gateways[0].drain()

        def problems() -> str:
            return str(links_report(second.gateway.links, second.gateway.coordinator.state))

        await becomes(lambda: "another gateway may still write it back" in problems())
        await becomes(lambda: "another gateway may still write it back" not in problems())
        assert reverse_of(world, 1).position == 1
