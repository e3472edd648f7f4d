"""A gateway that leaves writes nothing after its last entry, though proposals still wait."""

from random import Random

import pytest
import trio
import trio.testing

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    Failure,
)
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.log.metadata_log import Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import ExpireGateways, Register
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.state.cluster import ClusterState


async def registered(nursery: trio.Nursery, log: MemoryLog) -> Coordinator:
    coordinator = Coordinator(log, ClusterState(), rng=Random(0), wall_clock=lambda: 1_000_000.0)
    nursery.start_soon(coordinator.run)
    endpoints = (Endpoint("PLAINTEXT", "h", 1),)
    answer = await coordinator.propose(Register(1, "key", "az1", endpoints, "0", "cluster"))
    assert isinstance(answer, int)
    coordinator.incarnation = answer
    return coordinator


async def replayed(log: MemoryLog) -> ClusterState:
    """Return the state that a starting gateway folds from the log; fail if the fold fails."""
    state = ClusterState()
    entries = await log.read(1, 1 << 30)
    assert not isinstance(entries, Trimmed)
    for each in entries:
        state.apply(each.position, decode_entry(each.payload, each.position))
    return state


async def test_proposals_after_the_leaving_gateways_last_entry_are_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    blocks: list[int] = []
    failures: list[Failure] = []
    async with trio.open_nursery() as nursery:
        coordinator = await registered(nursery, log)
        nursery.start_soon(coordinator.leave)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(2):  # the second reads the first one's write, so it needs a later entry
            coordinator.submit(ReserveProducerIds(10), blocks.append, failures.append)
        ended: list[list[int]] = []
        coordinator.submit(ExpireGateways(), ended.append, failures.append)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(CoordinatorUnavailable, match="has left"):
            await coordinator.propose(ReserveProducerIds(10))
        nursery.cancel_scope.cancel()
    state = await replayed(log)
    assert not state.gateways.live
    assert len(failures) == 2
    assert ended == [[]]  # a proposal without events is answered
    assert blocks == []
    assert state.producer_ids.next_id == 0


async def test_proposals_in_the_entry_of_a_leave_still_count(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    blocks: list[int] = []
    failures: list[Failure] = []
    async with trio.open_nursery() as nursery:
        coordinator = await registered(nursery, log)
        for _ in range(3):
            coordinator.submit(ReserveProducerIds(10), blocks.append, failures.append)
        await coordinator.leave()
        await coordinator.catch_up()
        nursery.cancel_scope.cancel()
    state = await replayed(log)
    assert not state.gateways.live
    assert blocks == [0, 10, 20]
    assert failures == []
