"""Coordinators on a log that is moved, and a mover that may be cut short."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random

import trio

from tidegate_coordination.coordinator import Coordinator, CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.entries import decode_entry
from tidegate_coordination.events import Endpoint
from tidegate_coordination.log_move_watch import LogMoveWatch
from tidegate_coordination.log_mover import LogMover, MovePlan, MoveReport
from tidegate_coordination.logs.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.metadata_log import FIRST_POSITION, MetadataLog, Trimmed
from tidegate_coordination.movable_log import MovableLog
from tidegate_coordination.rules.gateways import ExpireGateways, Register, Renew
from tidegate_coordination.rules.producer_ids import ReserveProducerIds
from tidegate_coordination.state.cluster import ClusterState

LEASE_MS = 30_000
NOW_SECONDS = 1_000_000.0


def clock() -> float:
    return NOW_SECONDS + trio.current_time()


@dataclass(slots=True)
class MoveWorld:
    """logs: by URL; the first is where it begins.  given: blocks of ids, by who got them."""

    seed: int
    faults: LogFaults = field(default_factory=LogFaults)
    logs: dict[str, MemoryLog] = field(default_factory=dict)
    given: list[tuple[int, int]] = field(default_factory=list)
    refused: dict[int, Exception] = field(default_factory=dict)
    wrap: Callable[[MetadataLog], MetadataLog] = lambda log: log

    def __post_init__(self) -> None:
        for url in ("a", "b", "c"):
            self.logs.setdefault(url, MemoryLog())

    def opened(self, url: str, salt: int = 0) -> MetadataLog:
        return FaultyLog(self.logs[url], self.faults, Random(f"{self.seed}/{url}/{salt}"))

    def movable(self, node_id: int, url: str = "a") -> MovableLog:
        async def open_next(url: str) -> MetadataLog:
            await trio.lowlevel.checkpoint()
            if node_id in self.refused:
                raise self.refused[node_id]
            return self.opened(url, node_id)

        return MovableLog(self.opened(url, node_id), open_next)

    async def coordinator(self, node_id: int, log: MovableLog) -> Coordinator:
        state = await self.loaded(log)
        log.follow(state)
        return Coordinator(
            log, state, rng=Random(f"{self.seed}/{node_id}"), wall_clock=clock, deadline_seconds=300
        )

    async def loaded(self, log: MetadataLog) -> ClusterState:
        """Read without faults: what a start does is tested with gateways."""
        state = ClusterState()
        if isinstance(log, MovableLog):
            log.follow(state)
        return state

    async def live(
        self, node_id: int, task_status: trio.TaskStatus[Coordinator] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """A gateway's life: it registers, renews, answers to moves, and takes ids."""
        log = self.movable(node_id)
        coordinator = await self.coordinator(node_id, log)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(coordinator.run)
            await register(coordinator, node_id)
            nursery.start_soon(LogMoveWatch(coordinator, log).run)
            nursery.start_soon(renew, coordinator)
            task_status.started(coordinator)
            await trio.sleep_forever()

    async def work(self, coordinator: Coordinator, count: int) -> None:
        """Take blocks of ids, each of which must be given out once."""
        for _ in range(count):
            size = 1 + coordinator.incarnation
            first = await coordinator.propose(ReserveProducerIds(size))
            self.given.append((first, size))
            await trio.sleep(0.05)

    async def move(self, target: str, name: str = "m", **patience: float) -> MoveReport:
        """One life of the command."""
        log = self.movable(-2)
        coordinator = await self.coordinator(-2, log)
        source, copy = self.opened("a", 7), self.opened(target, 8)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(coordinator.run)
            await coordinator.catch_up()
            await register(coordinator, -coordinator.state.gateways.next_incarnation - 2, name)
            nursery.start_soon(renew, coordinator)
            plan = MovePlan(f"{name}-{coordinator.incarnation}", target, **patience)
            report = await LogMover(coordinator, source, copy, plan, lambda _: None).run()
            await coordinator.leave()
            nursery.cancel_scope.cancel()
        return report

    def check_ids(self) -> None:
        """Every block was given out once, and none overlaps another."""
        end = 0
        for first, size in sorted(self.given):
            assert first >= end, (first, end)
            end = first + size


async def register(coordinator: Coordinator, node_id: int, key: str = "key") -> None:
    endpoints = (Endpoint("PLAINTEXT", "h", 1),) if node_id >= 0 else ()
    wanted = Register(node_id, f"{key}-{node_id}", "", endpoints, "0", "cluster", LEASE_MS)
    answer = await coordinator.propose(wanted)
    assert isinstance(answer, int)
    coordinator.incarnation = answer


async def renew(coordinator: Coordinator) -> None:
    while True:
        await trio.sleep(LEASE_MS / 30_000)
        with suppress(CoordinatorUnavailable, ProposalFailed):
            await coordinator.propose(Renew())
            await coordinator.propose(ExpireGateways())


async def replayed(log: MetadataLog) -> ClusterState:
    """The state that a log holds, from its snapshot on."""
    snapshot = await log.load_snapshot()
    state = ClusterState() if snapshot is None else ClusterState.decode(b"".join(snapshot.chunks))
    while entries := await log.read(max(state.position + 1, FIRST_POSITION), 1 << 30):
        assert not isinstance(entries, Trimmed)
        for each in entries:
            state.apply(each.position, decode_entry(each.payload, each.position))
    return state


@asynccontextmanager
async def gateways(world: MoveWorld, count: int) -> AsyncIterator[list[Coordinator]]:
    async with trio.open_nursery() as nursery:
        yield [await nursery.start(world.live, each) for each in range(1, count + 1)]
        nursery.cancel_scope.cancel()
