"""Coordinators on a log that is moved, and a mover that may be cut short."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

import trio

from tidegate_coordination.coordinator.coordinator import (
    Coordinator,
    CoordinatorUnavailable,
    ProposalFailed,
)
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.events.metadata_versions import FIRST
from tidegate_coordination.log.metadata_log import (
    FIRST_POSITION,
    AppendResult,
    LogCapabilities,
    LogEntry,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.log_move.mover import LogMover, MovePlan, MoveReport
from tidegate_coordination.log_move.watch import LogMoveWatch
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.rules.gateways import ExpireGateways, Register, Renew
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.state.cluster import ClusterState

Result = TypeVar("Result")
Wrap = Callable[[MetadataLog], MetadataLog]

LEASE_MS = 30_000
NOW_SECONDS = 1_000_000.0


def unchanged(log: MetadataLog) -> MetadataLog:
    return log


def clock() -> float:
    return NOW_SECONDS + trio.current_time()


@dataclass(slots=True)
class MoveWorld:
    """logs: by URL; the first is the cluster's.  given: blocks of ids, by their owner.

    elsewhere: by node id, the logs that gateways open instead of the URL of a move.  opened_next:
    the node ids of gateways that opened the log of a move, once for each opening.
    """

    seed: int
    faults: LogFaults = field(default_factory=LogFaults)
    logs: dict[str, MemoryLog] = field(default_factory=dict[str, MemoryLog])
    given: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    lives: int = 0
    elsewhere: dict[int, str] = field(default_factory=dict[int, str])
    opened_next: list[int] = field(default_factory=list[int])
    refused: dict[int, Exception] = field(default_factory=dict[int, Exception])

    def __post_init__(self) -> None:
        for url in ("a", "b", "c"):
            self.logs.setdefault(url, MemoryLog())

    def opened(self, url: str, salt: int = 0) -> MetadataLog:
        return FaultyLog(self.logs[url], self.faults, Random(f"{self.seed}/{url}/{salt}"))

    def movable(self, node_id: int, wrap: Wrap = unchanged, origin: str = "a") -> MovableLog:
        async def open_next(url: str) -> MetadataLog:
            await trio.lowlevel.checkpoint()
            if node_id in self.refused:
                raise self.refused[node_id]
            self.opened_next.append(node_id)
            return wrap(self.opened(self.elsewhere.get(node_id, url), node_id))

        return MovableLog(wrap(self.opened(origin, node_id)), open_next)

    async def coordinator(
        self, node_id: int, log: MovableLog, state: ClusterState | None = None
    ) -> Coordinator:
        self.lives += 1  # no two incarnations write the same nonces
        state = await self.loaded(log) if state is None else state
        log.follow(state)
        return Coordinator(
            log,
            state,
            rng=Random(f"{self.seed}/{node_id}/{self.lives}"),
            wall_clock=clock,
            deadline_seconds=300,
        )

    async def loaded(self, log: MetadataLog) -> ClusterState:
        """Return the state, read without faults: gateways' starts are tested elsewhere."""
        state = ClusterState()
        if isinstance(log, MovableLog):
            log.follow(state)
        return state

    async def live(
        self, node_id: int, task_status: trio.TaskStatus[Coordinator] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run an incarnation: it registers, renews, answers to moves, and takes ids."""
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

    async def move(
        self,
        target: str,
        name: str = "m",
        wrap: Wrap = unchanged,
        *,
        origin: str = "a",
        **patience: float,
    ) -> MoveReport | None:
        """Run the command once; None if an earlier run has moved the log."""
        log = self.movable(-2, wrap, origin)
        begin = None if origin == "a" else await replayed(self.logs[origin])
        coordinator = await self.coordinator(-2, log, begin)
        source, copy = wrap(self.opened(origin, 7)), wrap(self.opened(target, 8))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(coordinator.run)
            await coordinator.catch_up()
            if log.moves:
                nursery.cancel_scope.cancel()
                return None
            await register(coordinator, -coordinator.state.gateways.next_incarnation - 2, name)
            nursery.start_soon(renew, coordinator)
            plan = MovePlan(f"{name}-{coordinator.incarnation}", target, **patience)
            report = await LogMover(coordinator, log, source, copy, plan, lambda _: None).run()
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
    wanted = Register(
        node_id, f"{key}-{node_id}", "", endpoints, "0", "cluster", LEASE_MS,
        highest_version=max(FIRST, coordinator.state.metadata_version),
    )  # fmt: skip
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


@dataclass(slots=True)
class Fuse:
    """Cancels the scope at the nth call of a log, before or after the call's effect."""

    calls_left: int
    behind: bool
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    calls: int = 0

    def wrap(self, log: MetadataLog) -> MetadataLog:
        return FusedLog(log, self)

    async def burn(self, *, behind: bool) -> None:
        if behind == self.behind:
            self.calls += 1
            self.calls_left -= 1
            if self.calls_left == 0:
                self.scope.cancel()
        await trio.lowlevel.checkpoint()


class FusedLog:
    """A log whose caller may die at any call."""

    def __init__(self, log: MetadataLog, fuse: Fuse) -> None:
        self._log = log
        self._fuse = fuse

    @property
    def capabilities(self) -> LogCapabilities:
        return self._log.capabilities

    async def _call(self, call: Callable[[], Awaitable[Result]]) -> Result:
        await self._fuse.burn(behind=False)
        result = await call()
        await self._fuse.burn(behind=True)
        return result

    async def append(self, position: int, payload: bytes) -> AppendResult:
        return await self._call(lambda: self._log.append(position, payload))

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        return await self._call(lambda: self._log.read(from_position, max_bytes))

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await self._log.wait(after_position, timeout_seconds)

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await self._call(lambda: self._log.save_snapshot(position, chunks))

    async def load_snapshot(self) -> Snapshot | None:
        return await self._call(self._log.load_snapshot)

    async def trim(self, before_position: int) -> None:
        await self._call(lambda: self._log.trim(before_position))

    async def aclose(self) -> None:
        await self._log.aclose()
