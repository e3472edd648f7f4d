"""The new log, as a gateway holds it ready: opened once, and let go of without harm."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
import trio.testing

from tests.move_world import MoveWorld, gateways
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.metadata_log import LogUnavailable, MetadataLog
from tidegate_coordination.movable_log import MovableLog
from tidegate_coordination.snapshots import encode_state
from tidegate_coordination.state.log_moves import LogMove


@pytest.mark.parametrize("seed", range(5))
async def test_the_new_log_is_opened_once(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    world = MoveWorld(seed)
    async with gateways(world, 3) as found, trio.open_nursery() as nursery:
        for each in found:
            nursery.start_soon(world.work, each, 40)
        await trio.sleep(1)
        await world.move("b")
    opened = Counter(world.opened_next)
    assert [opened[each] for each in (1, 2, 3)] == [1, 1, 1]


class BadlyClosed(MemoryLog):
    """Its connection is lost, or hangs, when it is closed."""

    def __init__(self, *, hangs: bool) -> None:
        super().__init__()
        self.hangs = hangs

    async def aclose(self) -> None:
        if self.hangs:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        raise LogUnavailable("connection lost")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_new_log_that_cannot_be_closed_does_no_harm(
    hangs: bool, autojump_clock: trio.testing.MockClock
) -> None:
    world = MoveWorld(6)
    new = BadlyClosed(hangs=hangs)

    async def open_next(_: str) -> MetadataLog:
        await trio.lowlevel.checkpoint()
        return new

    async with gateways(world, 1) as found:
        state = found[0].state
        log = MovableLog(world.opened("a"), open_next)
        log.follow(state)
        state.log_moves.present = LogMove("m", 1)
        snapshot = await encode_state(state, as_copy=True)
        state.log_moves.present = None
        await new.save_snapshot(snapshot.position, snapshot.chunks)
        await new.trim(snapshot.position + 1)
        await world.work(found[0], 1)
        await log.prepare(LogMove("m", 1, "b", snapshot.position + 1, copy="m"))
        with trio.fail_after(10):
            await log.forget_next()
