"""A move shows the new log's URL, in the log and to people, without its password."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from tests.worlds.move_world import MoveWorld, gateways
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.log_move.mover import MoveRefused
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.movable import MovableLog

GIVEN = "postgres://ann:hidden@h/db?sslmode=verify-full&schema=new"
SHOWN = "postgres://ann@h/db?sslmode=verify-full&schema=new"


def world_with_a_password(seed: int) -> MoveWorld:
    world = MoveWorld(seed)
    world.logs[GIVEN] = world.logs[SHOWN] = MemoryLog()
    return world


async def test_no_log_and_no_snapshot_holds_the_password(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = world_with_a_password(1)
    with capture_logs() as said:
        async with gateways(world, 2) as found:
            await world.move(GIVEN)
            await world.work(found[0], 5)
            state = found[0].state
            assert state.log_moves.last.url == SHOWN
            assert b"hidden" not in state.encode()
    for log in (world.logs["a"], world.logs[GIVEN]):
        entries = await log.read(state.log_moves.last.offered_at, 1 << 20)
        assert isinstance(entries, list)
        assert entries
        assert not any(b"hidden" in each.payload for each in entries)
    urls = [each["url"] for each in said if "has moved" in each["event"]]
    assert set(urls) == {SHOWN}


async def test_a_gateway_that_lacks_the_password_complains_and_all_stay(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = world_with_a_password(2)
    world.refused[2] = LogMisconfigured("check user and password")
    async with gateways(world, 2) as found:
        with pytest.RaisesGroup(
            pytest.RaisesExc(MoveRefused, match="check user and password.*metadata.log.next")
        ):
            await world.move(GIVEN)
        await world.work(found[0], 5)
        assert found[0].state.log_moves.sealed_at == 0


async def test_the_error_of_a_gateway_that_cannot_follow_names_the_new_log(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = world_with_a_password(3)
    async with gateways(world, 1) as found:
        await world.move(GIVEN)
        await world.work(found[0], 1)
        state = found[0].state

    async def refused(_: str) -> MemoryLog:
        await trio.lowlevel.checkpoint()
        raise LogMisconfigured("check user and password")

    log = MovableLog(world.opened("a"), refused)
    log.follow(state)
    state.position = state.log_moves.sealed_at
    with pytest.raises(LogMisconfigured) as told:
        await log.append(state.position + 1, b"x")
    assert str(told.value) == (
        f"it has moved to {SHOWN}, which cannot be opened: check user and password"
    )
