"""A metadata log is moved while others write: one history, nothing lost, wherever it is cut."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.testing

from tests.worlds.move_world import Fuse, MoveWorld, gateways, replayed
from tidegate_coordination.events.entries import encode_entry
from tidegate_coordination.log.copying import holds_copy, put_copy
from tidegate_coordination.log.metadata_log import (
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.log_contract.faulty import LogFaults
from tidegate_coordination.log_move.mover import MoveRefused
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds


async def test_writers_go_on_in_the_new_log(autojump_clock: trio.testing.MockClock) -> None:
    world = MoveWorld(1)
    async with gateways(world, 3) as found, trio.open_nursery() as nursery:
        for each in found:
            nursery.start_soon(world.work, each, 100)
        await trio.sleep(1)
        report = await world.move("b")
        assert report is not None
    old, new = await replayed(world.logs["a"]), await replayed(world.logs["b"])
    assert old.position == report.sealed_at == old.log_moves.sealed_at
    assert report.gateways == 3
    assert new.position > old.position + 50
    assert len(world.given) == 300
    world.check_ids()
    assert {each.state.encode() for each in found if each.state.position == new.position} == {
        new.encode()
    }


async def test_entries_are_the_same_bytes(autojump_clock: trio.testing.MockClock) -> None:
    world = MoveWorld(2)
    async with gateways(world, 2) as found, trio.open_nursery() as nursery:
        nursery.start_soon(world.work, found[0], 60)
        report = await world.move("b")
        assert report is not None
    copied = await world.logs["b"].read(report.first_copied, 1 << 30)
    ours = await world.logs["a"].read(report.first_copied, 1 << 30)
    assert not isinstance(copied, Trimmed)
    assert not isinstance(ours, Trimmed)
    assert ours[-1].position == report.sealed_at
    assert copied[: len(ours)] == ours


FAULTS = LogFaults(
    ambiguous_append=0.1,
    lost_append=0.1,
    late_append=0.1,
    read_error=0.1,
    snapshot_error=0.3,
    lost_wakeup=0.2,
    slow=0.1,
    slow_seconds=0.2,
)


@pytest.mark.parametrize("seed", range(20))
async def test_faults_of_both_logs(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    world = MoveWorld(seed, FAULTS)
    async with gateways(world, 3) as found, trio.open_nursery() as nursery:
        for each in found:
            nursery.start_soon(world.work, each, 40)
        await trio.sleep(1)
        await world.move("b", ready_seconds=300)
    assert len(world.given) == 120
    world.check_ids()
    assert (await replayed(world.logs["b"])).producer_ids.next_id >= max(world.given)[0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LogMisconfigured("wrong password"), "gateway 2: wrong password"),
        (LogUnavailable("no route"), "gateway 2: it does not answer: no route"),
    ],
)
async def test_all_stay_if_one_cannot_use_the_new_log(
    error: Exception, words: str, autojump_clock: trio.testing.MockClock
) -> None:
    world = MoveWorld(3, refused={2: error})
    async with gateways(world, 3) as found:
        with pytest.RaisesGroup(pytest.RaisesExc(MoveRefused, match=words)):
            await world.move("b")
        await world.work(found[1], 5)
        world.refused.clear()
        state = await replayed(world.logs["a"])
        assert (state.log_moves.present, state.log_moves.sealed_at) == (None, 0)
        await world.move("b", "again")
        await world.work(found[1], 5)
    assert (await replayed(world.logs["b"])).log_moves.last.move_id.startswith("again")
    world.check_ids()


async def cut_short(world: MoveWorld, fuse: Fuse) -> bool:
    """Run the command; if it dies, run it again. Return whether it died."""
    async with gateways(world, 2) as found, trio.open_nursery() as nursery:
        for each in found:
            nursery.start_soon(world.work, each, 15)
        await trio.sleep(0.2)
        with fuse.scope:
            await world.move("b", "first", fuse.wrap)
        died = fuse.scope.cancelled_caught
        await trio.sleep(0.2)
        if died:
            await world.move("b", "again")
        await world.work(found[0], 5)
    return died


async def check_moved(world: MoveWorld) -> None:
    """Check that the new log continues at the old log's end, with the same bytes before."""
    old = await replayed(world.logs["a"])
    assert old.position == old.log_moves.sealed_at
    new = await replayed(world.logs["b"])
    assert new.position > old.position
    assert not new.log_moves.is_copy
    begin = await world.logs["b"].read(1, 1)
    assert isinstance(begin, Trimmed)
    copied = await world.logs["b"].read(begin.first_position, 1 << 30)
    ours = await world.logs["a"].read(begin.first_position, 1 << 30)
    assert not isinstance(copied, Trimmed)
    assert not isinstance(ours, Trimmed)
    assert copied[: len(ours)] == ours
    assert len(world.given) == 35
    world.check_ids()


@pytest.mark.parametrize("behind", [False, True])
async def test_a_mover_that_dies_at_any_call(
    behind: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """A second run of the command completes the move in any state; the gateways never stop."""
    deaths = 0
    while True:
        world = MoveWorld(deaths)
        died = await cut_short(world, Fuse(deaths + 1, behind))
        await check_moved(world)
        if not died:
            break
        deaths += 1
    assert deaths > 25


async def lives(world: MoveWorld, node_id: int, rng: Random) -> None:
    """Run one incarnation after the other; each starts with the old log's URL and is killed."""
    while True:
        with trio.move_on_after(rng.uniform(1, 6)):
            async with trio.open_nursery() as nursery:
                coordinator = await nursery.start(world.live, node_id)
                await world.work(coordinator, 1_000_000)


async def movers(world: MoveWorld, rng: Random) -> int:
    """Kill the command and run it again until it completes; return the number of runs."""
    runs = 1
    while True:
        with trio.move_on_after(rng.uniform(0.5, 1.5) * runs) as life:
            await world.move("b", f"m{runs}", ready_seconds=300)
        if not life.cancelled_caught:
            return runs
        runs += 1


@pytest.mark.parametrize("seed", range(12))
async def test_everybody_dies_at_any_time(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    world = MoveWorld(seed)
    rng = Random(seed)
    async with trio.open_nursery() as nursery:
        for each in (1, 2, 3):
            nursery.start_soon(lives, world, each, Random(f"{seed}/{each}"))
        await trio.sleep(rng.uniform(0, 3))
        await movers(world, rng)
        sealed_at = (await replayed(world.logs["a"])).log_moves.sealed_at
        given = len(world.given)
        await trio.sleep(8)
        nursery.cancel_scope.cancel()
    assert len(world.given) > given
    world.check_ids()
    assert (await replayed(world.logs["a"])).position == sealed_at > 0
    new = await replayed(world.logs["b"])
    assert new.position > sealed_at
    assert new.producer_ids.next_id >= sum(max(world.given))


class _Rotten(MemoryLog):
    """A log that the mover cannot read."""

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        raise LogCorrupt("rotten")


async def test_a_move_that_meets_damage_cancels_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = MoveWorld(3)
    opened: list[MetadataLog] = []

    def wrap(log: MetadataLog) -> MetadataLog:
        opened.append(log)
        return _Rotten() if len(opened) == 2 else log  # the source of the copy

    async with gateways(world, 1) as [gateway]:
        with pytest.RaisesGroup(
            pytest.RaisesExc(LogCorrupt, match="rotten"), flatten_subgroups=True
        ):
            await world.move("b", wrap=wrap)
        await gateway.catch_up()
        assert gateway.state.log_moves.present is None
        assert await gateway.propose(ReserveProducerIds(1)) == 0


async def test_a_damaged_entry_is_not_copied() -> None:
    target = MemoryLog()
    whole = encode_entry(b"n" * 12, 1, 1000, [], 0, entry_format=2, position=1)
    with pytest.raises(LogCorrupt, match="1"):
        await put_copy(target, LogEntry(1, whole[:-1] + bytes([whole[-1] ^ 1])))
    assert await target.read(1, 100) == []
    await put_copy(target, LogEntry(1, whole))
    assert await target.read(1, 100) == [LogEntry(1, whole)]
    damaged = MemoryLog()
    await damaged.append(1, whole[:-1] + bytes([whole[-1] ^ 1]))
    # damage, not an entry of another log
    for source, copy in ((target, damaged), (damaged, target)):
        with pytest.raises(LogCorrupt, match="1"):
            await holds_copy(source, copy, 1)
    with pytest.raises(LogCorrupt, match="1"):
        await put_copy(damaged, LogEntry(1, whole))


async def test_a_trimmed_copy_holds_the_entry() -> None:
    """After a move, gateways may trim the copy. A trimmed entry still counts as copied."""
    source, copy = MemoryLog(), MemoryLog()
    for log in (source, copy):
        await log.append(1, b"x")
    await copy.save_snapshot(1, [b"s"])
    await copy.trim(2)
    assert await holds_copy(source, copy, 1)
