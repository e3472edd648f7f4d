"""A snapshot that takes long while the log is moved: the new log gets nothing of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from tests.worlds.move_world import MoveWorld, gateways, register, renew, replayed
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.log.copying import prove_target
from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable, MetadataLog
from tidegate_coordination.log.snapshots import encode_state
from tidegate_coordination.log_move.mover import MoveRefused
from tidegate_coordination.log_move.watch import LogMoveWatch
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_gateway.parts.keepers import housekeeper_settings
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.upkeep.housekeeper import Housekeeper
from tidegate_storage.stores.memory_store import MemoryObjectStore

SLOW_SECONDS = 30.0


class SlowLog:
    """A log whose answer to one call takes as long as a move."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self.calls_left: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._log, name)
        if name not in self.calls_left:
            return call

        async def slow(*args: object) -> object:
            answer = await call(*args)
            self.calls_left[name] -= 1
            if self.calls_left[name] == 0:
                await trio.sleep(SLOW_SECONDS)
            return answer

        return slow


def housekeeper(coordinator: Coordinator, log: MovableLog) -> Housekeeper:
    async def is_ours() -> None:
        await trio.lowlevel.checkpoint()

    async def is_copied(position: int) -> None:
        await trio.lowlevel.checkpoint()

    return Housekeeper(
        coordinator,
        log,
        MemoryObjectStore(),
        replace(housekeeper_settings(BrokerSettings({})), kept_entries=5),
        cluster=ClusterSettings(coordinator.state),
        check_owner=is_ours,
        copied_log_time_ms=lambda: 0.0,
        see_copied=is_copied,
        is_cut_off=lambda: False,
        wall_clock=trio.current_time,
    )


async def begin_a_copy(world: MoveWorld, writer: Coordinator) -> None:
    """Begin a move that one gateway's setting prevents; write more entries than the log keeps."""
    world.refused[2] = LogMisconfigured("wrong password")
    with pytest.RaisesGroup(MoveRefused):
        await world.move("b")
    await world.work(writer, 60)
    world.refused.clear()


@pytest.mark.parametrize(
    ("call", "nth"),
    [("encode_state", 1), ("save_snapshot", 1), ("load_snapshot", 1), ("load_snapshot", 2)],
)
async def test_the_new_log_keeps_the_snapshot_of_its_copy_and_all_behind(
    call: str,
    nth: int,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = MoveWorld(3)
    slow: list[SlowLog] = []

    def wrapped(log: MetadataLog) -> MetadataLog:
        slow.append(SlowLog(log))
        return slow[-1]

    async def encode_slowly(*args: Any) -> Any:
        encoded = await encode_state(*args)
        await trio.sleep(SLOW_SECONDS)
        return encoded

    async with gateways(world, 2) as found, trio.open_nursery() as nursery:
        log = world.movable(3, wrapped)
        coordinator = await world.coordinator(3, log)
        nursery.start_soon(coordinator.run)
        await register(coordinator, 3)
        nursery.start_soon(LogMoveWatch(coordinator, log).run)
        nursery.start_soon(renew, coordinator)
        await begin_a_copy(world, found[0])
        begin = await world.logs["b"].load_snapshot()
        if call == "encode_state":
            monkeypatch.setattr("tidegate_gateway.upkeep.housekeeper.encode_state", encode_slowly)
        else:
            slow[0].calls_left[call] = nth
        async with trio.open_nursery() as taking:
            taking.start_soon(_is_put_off, housekeeper(coordinator, log))
            await trio.testing.wait_all_tasks_blocked()
            report = await world.move("b", "again")
            assert report is not None
        assert await world.logs["b"].load_snapshot() == begin
        moves = coordinator.state.log_moves
        await prove_target(world.logs["b"], moves.last, moves.sealed_at)
        assert (await replayed(world.logs["b"])).position >= report.sealed_at
        monkeypatch.undo()
        await housekeeper(coordinator, log).take_snapshot()
        await world.work(found[0], 3)
        nursery.cancel_scope.cancel()
    assert (await replayed(world.logs["b"])).log_moves.sealed_at == report.sealed_at
    world.check_ids()


async def _is_put_off(keeper: Housekeeper) -> None:
    with pytest.raises(LogUnavailable, match="is being moved"):
        await keeper.take_snapshot()
