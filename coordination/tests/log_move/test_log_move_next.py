"""The new log that a gateway holds ready: opened once, and closed without harm."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
import trio.testing

from tests.worlds.move_world import MoveWorld, gateways, register
from tidegate_coordination.log.metadata_log import LogUnavailable, MetadataLog
from tidegate_coordination.log.snapshots import encode_state
from tidegate_coordination.log_move.watch import LOOK_SECONDS, LogMoveWatch
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.rules.log_moves import BeginLogMove, OfferLog
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
    """A log whose connection is lost, or hangs, when it is closed."""

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


async def test_a_complaint_is_about_the_present_state(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """First the new log does not answer. Then it answers, but lacks the copy."""

    class Late(MovableLog):
        has_failed = False

        async def prepare(self, move: LogMove) -> bool:
            await trio.lowlevel.checkpoint()
            if not self.has_failed:
                self.has_failed = True
                raise LogUnavailable("connection lost")
            return False

    async def open_next(_: str) -> MetadataLog:
        await trio.lowlevel.checkpoint()
        return world.opened("b")

    world = MoveWorld(8)
    async with gateways(world, 1) as found, trio.open_nursery() as nursery:
        log = Late(world.opened("a"), open_next)
        coordinator = await world.coordinator(2, log)
        nursery.start_soon(coordinator.run)
        await register(coordinator, 2)
        nursery.start_soon(LogMoveWatch(coordinator, log).run)
        await found[0].propose(BeginLogMove("m"))
        await found[0].propose(OfferLog("m", "b", "m"))
        await trio.sleep(2 * LOOK_SECONDS)
        await found[0].catch_up()
        move = found[0].state.log_moves.present
        assert move is not None
        assert move.answers[coordinator.incarnation] == "it does not hold what is copied"
        nursery.cancel_scope.cancel()
