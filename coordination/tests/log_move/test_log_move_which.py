"""The target of a move: earlier logs hold the same entries, and must not be chosen."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.worlds.move_world import MoveWorld, gateways, replayed
from tidegate_coordination.log.copying import look_at_copy, prove_target
from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable
from tidegate_coordination.log_move.mover import MoveRefused
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.rules.log_moves import BeginLogMove


@pytest.mark.parametrize("stale", ["a", "b"])
async def test_an_old_log_is_not_taken_for_the_new_one(
    stale: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A gateway still has the setting of an earlier move.

    That gateway complains, and all gateways stay with the old log.
    """
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
async def test_a_gateway_that_starts_after_the_move_does_not_use_an_old_log(
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
    """Gateways that have not read this move recognise the new log.

    So do those that have not read the next move.
    """
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


async def test_a_log_that_was_left_is_not_copied_to_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Gateways whose URL names the left log start there, so no move may copy to it.

    Its newest snapshot is still that of the copy.
    """
    world = MoveWorld(4)
    async with gateways(world, 2) as found:
        await world.move("b")
        await world.work(found[0], 5)
        with pytest.raises(LogMisconfigured, match="it was copied to, used"):
            await look_at_copy(world.logs["b"])
        await world.move("c", "second", origin="b")
        await world.work(found[0], 5)
        with pytest.RaisesGroup(pytest.RaisesExc(LogMisconfigured, match="empty log is needed")):
            await world.move("b", "third", origin="c")
        await world.work(found[0], 5)
    old = await replayed(world.logs["b"])
    assert old.position == old.log_moves.sealed_at
    world.check_ids()


async def test_the_copy_of_an_earlier_move_may_be_too_old_to_continue(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Once entries after the copy are trimmed, the error asks for another log."""
    world = MoveWorld(6)
    too_old = pytest.RaisesExc(LogMisconfigured, match="empty log is needed.* too old")
    async with gateways(world, 1) as found:
        await world.move("b")
        world.refused[1] = LogMisconfigured("wrong password")
        with pytest.RaisesGroup(pytest.RaisesExc(MoveRefused, match="wrong password")):
            await world.move("c", "second", origin="b")
        await world.work(found[0], 5)
        state = found[0].state
        await world.logs["b"].save_snapshot(state.position, [state.encode()])
        await world.logs["b"].trim(state.position + 1)
        world.refused.clear()
        with pytest.RaisesGroup(too_old):
            await world.move("c", "third", origin="b")
        await world.work(found[0], 5)
    world.check_ids()


async def test_a_mover_that_another_took_over_from_stops_copying(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(5, refused={2: LogUnavailable("no route")})
    async with gateways(world, 2) as found:
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_is_refused, world)
                await trio.sleep(2)
                await found[0].propose(BeginLogMove("other"))
        # and the refused command does not cancel the other move
        assert found[0].state.log_moves.present is not None


async def _is_refused(world: MoveWorld) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(MoveRefused, match="or another began")):
        await world.move("b", "first", ready_seconds=300)
