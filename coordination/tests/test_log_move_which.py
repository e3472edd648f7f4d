"""Which log a move leads to: the logs before it hold the same entries, and must not be taken."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.move_world import MoveWorld, gateways, replayed
from tidegate_coordination.log_copy import prove_target
from tidegate_coordination.log_mover import MoveRefused
from tidegate_coordination.metadata_log import LogMisconfigured
from tidegate_coordination.movable_log import MovableLog


@pytest.mark.parametrize("stale", ["a", "b"])
async def test_an_old_log_is_not_taken_for_the_new_one(
    stale: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A gateway has still the setting of an earlier move: it complains, and all stay."""
    world = MoveWorld(1)
    async with gateways(world, 2) as found:
        await world.work(found[0], 5)
        await world.move("b")
        world.elsewhere[2] = stale
        with pytest.RaisesGroup(
            pytest.RaisesExc(MoveRefused, match="gateway 2: .*not the one that the metadata log")
        ):
            await world.move("c", "second", origin="b")
        for each in found:
            await world.work(each, 5)
        world.elsewhere.clear()
        await world.move("c", "third", origin="b")
        for each in found:
            await world.work(each, 5)
    old, new = await replayed(world.logs["b"]), await replayed(world.logs["c"])
    assert old.position == old.log_moves.sealed_at < new.position
    world.check_ids()


@pytest.mark.parametrize("stale", ["a", "b"])
async def test_one_that_begins_after_the_move_does_not_go_on_in_an_old_log(
    stale: str, autojump_clock: trio.testing.MockClock
) -> None:
    world = MoveWorld(2)
    async with gateways(world, 2) as found:
        await world.move("b")
        await world.move("c", "second", origin="b")
        await world.work(found[0], 5)
    sealed = await replayed(world.logs["b"])

    async def open_stale(_: str) -> MovableLog:
        await trio.lowlevel.checkpoint()
        return world.movable(7, origin=stale)

    log = MovableLog(world.opened("b"), open_stale)
    log.follow(sealed)
    with pytest.raises(LogMisconfigured, match="not the one that the metadata log"):
        await log.append(sealed.position + 1, b"history of its own")
    assert (await replayed(world.logs["b"])).position == sealed.position


async def test_the_new_log_is_known_also_by_later_snapshots(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Of a gateway behind this move, and behind the next."""
    world = MoveWorld(3)
    async with gateways(world, 1) as found:
        await world.move("b")
        await world.work(found[0], 5)
        first, sealed_at = found[0].state.log_moves.last, found[0].state.log_moves.sealed_at
        await world.logs["b"].save_snapshot(found[0].state.position, [found[0].state.encode()])
        await prove_target(world.logs["b"], first)
        await world.move("c", "second", origin="b")
        await prove_target(world.logs["c"], first, sealed_at)
        await world.work(found[0], 5)
        await world.logs["c"].save_snapshot(found[0].state.position, [found[0].state.encode()])
        await prove_target(world.logs["c"], first, sealed_at)
        with pytest.raises(LogMisconfigured):
            await prove_target(world.logs["b"], found[0].state.log_moves.last)
