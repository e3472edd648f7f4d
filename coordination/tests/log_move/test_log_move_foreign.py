"""A move whose target holds entries that are no copy: the command fails, gateways continue."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec
import pytest
import trio
import trio.testing

from tests.worlds.move_world import MoveWorld, gateways
from tidegate_coordination.log.copying import begin_copy, look_at_copy, prove_target
from tidegate_coordination.log.metadata_log import (
    LogMisconfigured,
    LogMisuse,
    MetadataLog,
    Snapshot,
)
from tidegate_coordination.log_contract.contract import verify_log
from tidegate_coordination.log_move.mover import MoveRefused
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.log_moves import LogMove

MOVE = LogMove("m", 1, copy="m")


def piece(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return struct.pack(">I", len(body)) + body


FOREIGN: list[list[bytes]] = [
    [],
    [b""],
    [b"old"],
    [b"state at 140"],
    [struct.pack(">I", 1) + b"\xc1"],
    [piece(7)],
    [piece([])],
    [piece({})],
    [piece({"format": 1})],
    [piece({"metadata_version": 1_000_000})],
    [piece({"log_moves": {"present": [1]}})],
    [piece({"log_moves": [1]})],
]


async def verified(log: MemoryLog) -> None:
    """Leave the log as `tidegate log verify` leaves it."""

    async def open_log() -> MetadataLog:
        await trio.lowlevel.checkpoint()
        return log

    assert await verify_log(open_log, lambda *_: None)


@pytest.mark.parametrize("chunks", FOREIGN)
async def test_a_snapshot_of_something_else_is_refused(chunks: list[bytes]) -> None:
    log = MemoryLog()
    await log.append(1, b"x")
    await log.save_snapshot(1, chunks)
    with pytest.raises(LogMisconfigured, match="not the one that the metadata log is moved to"):
        await prove_target(log, MOVE)
    with pytest.raises(LogMisconfigured, match="a new, empty log is needed"):
        await look_at_copy(log)


async def test_entries_of_something_else_are_refused() -> None:
    log, state = MemoryLog(), ClusterState()
    state.log_moves.present = MOVE
    state.log_moves.is_copy = True
    await begin_copy(log, Snapshot(0, [state.encode()]))
    assert await look_at_copy(log) is not None
    await log.append(1, b"no entry")
    with pytest.raises(LogMisconfigured, match=r"a new, empty log is needed.*entry 1 "):
        await look_at_copy(log)


async def test_a_log_that_was_verified_is_not_moved_to(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(1)
    await verified(world.logs["c"])
    async with gateways(world, 2) as found:
        with pytest.RaisesGroup(pytest.RaisesExc(LogMisconfigured, match="empty log is needed")):
            await world.move("c")
        await world.work(found[0], 1)
        assert found[0].state.log_moves.present is None
        await world.move("b", "second")
        await world.work(found[0], 3)
    world.check_ids()


async def test_a_gateway_whose_setting_names_a_verified_log_complains_and_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(2, elsewhere={2: "c"})
    await verified(world.logs["c"])
    async with gateways(world, 2) as found:
        refused = pytest.RaisesExc(MoveRefused, match="gateway 2: .*metadata.log.next")
        with pytest.RaisesGroup(refused):
            await world.move("b")
        for each in found:
            await world.work(each, 3)
        assert found[1].state.log_moves.present is None
        world.elsewhere.clear()
        await world.move("b", "second")
        await world.work(found[1], 3)
    world.check_ids()


class Picky(MemoryLog):
    """Refuses each snapshot as misuse, as if no correct caller would send it."""

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        raise LogMisuse("too many chunks")


async def test_a_move_ends_with_the_new_logs_refusal(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(3, logs={"b": Picky()})
    async with gateways(world, 1) as found:
        with pytest.RaisesGroup(pytest.RaisesExc(LogMisuse, match="too many chunks")):
            await world.move("b")
        await world.work(found[0], 1)
        assert found[0].state.log_moves.present is None


async def test_two_copies_that_begin_at_once_end_in_a_refusal() -> None:
    """The next command is refused, too: the newest snapshot is of the second copy.

    The entries are not.
    """
    log, second = MemoryLog(), ClusterState()
    await begin_copy(log, Snapshot(5, [b"the first's"]))
    second.position, second.log_moves.present = 20, MOVE
    second.log_moves.is_copy = True
    with pytest.raises(LogMisconfigured, match=r"empty log is needed.*began a copy in it at once"):
        await begin_copy(log, Snapshot(20, [second.encode()]))
    with pytest.raises(LogMisconfigured, match=r"empty log is needed.*began a copy in it at once"):
        await look_at_copy(log)
