"""A gateway that counts as ended at the others acknowledges no commit that it forwarded.

The group may have moved here meanwhile.  The source takes the commit all the same.
"""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_gateway.migration.units.group_move import GroupMove, Moved
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages.heartbeat import HeartbeatRequest

from ..test_mirrors import World, becomes, mirroring
from .test_forwarded_groups import at_source, call, commit, fetch, linked, state


class OwnWay:
    """A connection of one gateway to the log, which can be cut."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def _pass(self) -> None:
        while self.is_cut:  # noqa: ASYNC110 - the test mends it
            await trio.sleep(1)

    async def append(self, *arguments: Any) -> Any:
        await self._pass()
        return await self._log.append(*arguments)

    async def read(self, *arguments: Any) -> Any:
        await self._pass()
        return await self._log.read(*arguments)

    async def wait(self, *arguments: Any) -> Any:
        await self._pass()
        return await self._log.wait(*arguments)


async def with_own_way(world: World) -> OwnWay:
    """Start the first gateway."""
    own = OwnWay(world.ours.log)
    log = cast("MetadataLog", own)
    world.gateways.append(await world.ours.start(1, Clock(), log=log))
    return own


async def moved_by(world: World, at: int) -> Moved:
    gateway = world.gateways[at].gateway
    running = gateway.links.running["src"]
    await becomes(lambda: running.group_lines is not None)
    assert running.group_lines is not None
    return await GroupMove(gateway.coordinator, "src", running.group_lines.cluster).move("g1")


async def acknowledged(world: World, offset: int) -> bool:
    """Commit through the gateway that is cut off."""
    with trio.move_on_after(60):
        return await commit(world, offset, at=0) == E.NONE
    return False


@pytest.mark.parametrize("sees_others", [False, True])
async def test_a_gateway_that_is_cut_off(sees_others: bool, autojump_clock: MockClock) -> None:
    """A gateway that saw no other does not count as cut off, but others may have started since."""
    async with mirroring(gateways=0) as world:
        own = await with_own_way(world)
        if sees_others:
            await world.gateway()
        await linked(world)
        assert await commit(world, 5) == E.NONE
        own.is_cut = True
        if not sees_others:
            await world.gateway()
        await becomes(lambda: len(state(world, 1).gateways.live) == 1)
        assert (await moved_by(world, 1)).problem == ""
        assert not await acknowledged(world, 8)
        assert await fetch(world, at=1) == 5
        beat = await call(world, "Heartbeat", 4, HeartbeatRequest("g1", 1, "member"))
        assert beat.error_code == E.NOT_COORDINATOR


async def test_a_gateway_that_was_started_again_elsewhere(autojump_clock: MockClock) -> None:
    """No fence waits for the older incarnation."""
    async with mirroring(gateways=0) as world:
        own = await with_own_way(world)
        await world.gateway()
        await linked(world)
        assert await commit(world, 5) == E.NONE
        own.is_cut = True
        world.gateways.append(await world.ours.start(1, Clock()))
        assert (await moved_by(world, 1)).problem == ""
        assert not await acknowledged(world, 8)
        late = at_source(world)
        assert late is not None
        assert late.offset == 8  # the source took it
        assert await fetch(world, at=1) == 5
