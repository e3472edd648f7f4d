"""A gateway that begins with a snapshot reads the bodies of inlined objects from the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio
from trio.testing import MockClock

from tests.worlds.records.inlined_world import InlinedWorld
from tidegate_coordination.coordinator.loading import load_state
from tidegate_coordination.log.metadata_log import LogEntry, LogMisconfigured, MetadataLog, Trimmed
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.state.cluster import ClusterState


def bodies(state: ClusterState) -> list[bytes | None]:
    return [state.objects.inlined.body(number) for number in state.objects.inlined]


async def a_world() -> InlinedWorld:
    """Two objects in two entries, of which the snapshot has the positions."""
    world = InlinedWorld()
    await world.begin()
    await world.append(*world.inline(b"one"))
    await world.append()
    await world.append(*world.inline(b"two"))
    await world.save_snapshot()
    return world


class WatchedLog(FaultyLog):
    """Counts reads of entries before the snapshot; `before` is called before each."""

    def __init__(self, world: InlinedWorld) -> None:
        super().__init__(world.log, LogFaults(), Random(0))
        self._first = world.state.position + 1
        self.old_reads = 0
        self.before: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        if from_position < self._first:
            self.old_reads += 1
            await self.before()
        return await super().read(from_position, max_bytes)


async def test_bodies_before_the_snapshot_come_from_their_entries() -> None:
    world = await a_world()
    log = WatchedLog(world)
    await world.append(*world.inline(b"three"))
    state = await load_state(log, deadline_seconds=5)
    assert bodies(state) == [b"one", b"two", b"three"]
    assert state.encode() == world.state.encode()
    assert log.old_reads == 1


async def test_bodies_of_one_entry_are_distinguished_by_name() -> None:
    world = InlinedWorld()
    await world.begin()
    position = await world.append(*world.inline(b"one"), *world.inline(b"other"))
    await world.save_snapshot()
    await world.log.trim(position)
    state = await load_state(MovableLog(world.log, no_next), deadline_seconds=5)
    assert bodies(state) == [b"one", b"other"]


async def no_next(url: str) -> MetadataLog:
    raise AssertionError(url)


async def test_moved_bodies_are_not_read() -> None:
    world = await a_world()
    log = WatchedLog(world)
    await world.append(world.move())
    state = await load_state(log, deadline_seconds=5)
    assert not state.objects.inlined
    assert not log.old_reads


async def test_a_log_that_does_not_answer_is_asked_again(autojump_clock: MockClock) -> None:
    world = await a_world()
    faulty = FaultyLog(world.log, LogFaults(read_error=0.6), Random(3))
    state = await load_state(faulty, deadline_seconds=60)
    assert bodies(state) == [b"one", b"two"]
    log = WatchedLog(world)
    log.before = trio.sleep_forever
    with pytest.raises(trio.TooSlowError):
        await load_state(log, deadline_seconds=60)


async def test_another_gateway_may_move_the_batches_and_trim_meanwhile() -> None:
    world = await a_world()
    log = WatchedLog(world)

    async def move_and_trim() -> None:
        log.before = trio.lowlevel.checkpoint
        await world.log.trim(await world.append(world.move()))

    log.before = move_and_trim
    state = await load_state(log, deadline_seconds=5)
    assert not state.objects.inlined
    assert state.encode() == world.state.encode()


async def test_a_log_without_the_bodies_is_refused() -> None:
    world = await a_world()
    await world.log.trim(world.state.position)
    with pytest.raises(LogMisconfigured, match=r"in its entry 3, .* from a backup"):
        await load_state(world.log, deadline_seconds=5)
