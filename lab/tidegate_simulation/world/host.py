"""One machine of the simulated world, over many lives: it starts, dies, and starts again.

A derived class says which process runs on the machine: a gateway (node.py) or a pipeline driver
(pipelines.py).  This module holds the faults that strike every machine, and the clients through
which the process reaches the world.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import cast

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, CoordinatorUnavailable
from tidegate_coordination.events.entries import UnreadableEntry
from tidegate_coordination.events.metadata_versions import ReleaseTooOld
from tidegate_coordination.log.access import GatewayFenced
from tidegate_coordination.log.metadata_log import (
    LogCorrupt,
    LogMisconfigured,
    LogUnavailable,
    MetadataLog,
)
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.movable import MovableLog
from tidegate_coordination.state.changes import EVERY_ENTRY
from tidegate_gateway.startup import NodeIdInUse
from tidegate_storage.stores.object_store import ObjectStore, StoreMisconfigured, StoreUnavailable

from ..invariants.replays import COMPARED_ENTRIES
from ..plans.move_plan import FIRST_LOG
from ..plans.store_faults import StoreFaults
from ..plans.version_plan import DAMAGE_KIND
from .faulty.crash_points import CrashPoint, PointedLog, PointedStore
from .faulty.damaged_log import DamagedLog
from .faulty.deafness import DeafLog, DeafStore
from .faulty.store import FaultyStore
from .world import World

LATE_SECONDS = 40.0


@dataclass(slots=True)
class _OpenedLog:
    """A log that one life has opened."""

    url: str
    log: FaultyLog
    deaf: DeafLog


_LOST_ENTRIES = "it lost entries"


class Host(ABC):
    """See the module's head.

    name: as violations show it.  clock_offset_seconds: the error of its wall clock.  clock_rate:
    seconds of its clock in a true second.  prefix: of the kinds of events that strike it.
    next_log: metadata.log.next.  is_early: this life begins at a log that may be incomplete.
    is_held: the machine does not restart.  away_until: it does not restart before this time.
    went_on_at: the end of its last stall.  was_too_old: the cluster refused a life as too old.
    """

    prefix = ""

    def __init__(
        self, world: World, name: str, clock_offset_seconds: float, clock_rate: float = 1.0
    ) -> None:
        self.name = name
        self.crash_point = CrashPoint()
        self.coordinator: Coordinator | None = None
        self.is_held = False
        self.away_until = -inf
        self.went_on_at = -inf
        self.was_too_old = False
        self._damaged: list[DamagedLog] = []
        self._log_faults = LogFaults()
        self._store_faults = StoreFaults()
        self.next_log = ""
        self.is_early = False
        self._log_outages: Counter[str] = Counter()
        self._store_outages = 0
        self._refused: Counter[str] = Counter()
        self._log_deafness = 0
        self._store_deafness = 0
        self._comes_back_fast = False
        self._world = world
        self._rng = world.rng(name)
        self._clock_offset_seconds = clock_offset_seconds
        self._clock_rate = clock_rate
        self._root: trio.lowlevel.Task | None = None
        self._scope = trio.CancelScope()
        self._drain = trio.Event()
        self._logs: list[_OpenedLog] = []
        self._deaf_store: DeafStore | None = None
        self._store: FaultyStore | None = None

    # -- to be defined by derived classes ---------------------------------------------------------

    @property
    @abstractmethod
    def is_up(self) -> bool:
        """Return whether the process does its work now."""

    @abstractmethod
    async def _serve(self, nursery: trio.Nursery) -> None:
        """Start, work until told to drain, and drain."""

    @abstractmethod
    def _forget(self) -> None:
        """Forget the objects that died with the process."""

    def _read_object(self, key: str) -> None:  # noqa: B027 - most hosts ignore it
        """Note that the process is about to read a part of an object."""

    def _count(self, kind: str, times: int = 1) -> None:
        self._world.strikes.count(f"{self.prefix}{kind}", times)

    @property
    def is_log_hung(self) -> bool:
        """Return whether a call to the metadata log hangs, even if the faults are over."""
        return any(each.log.hanging for each in self._logs)

    @property
    def store(self) -> FaultyStore | None:
        """The client with which this life reaches the object store."""
        return self._store

    @property
    def has_begun(self) -> bool:
        """Return whether a process runs, even one that still starts."""
        return bool(self._logs)

    # -- faults -----------------------------------------------------------------------------------

    def crash(self, *, comes_back_fast: bool = False) -> None:
        """Die at once; all memory is lost."""
        self._comes_back_fast = comes_back_fast
        self.go_on()
        self._scope.cancel()

    def drain(self) -> None:
        """Stop in order, and start again."""
        self._drain.set()

    def stall(self) -> None:
        """Stop all tasks until go_on(), while the world continues."""
        if self._root is not None:
            self._world.stalls.stop(self._root)

    def go_on(self) -> None:
        """Resume all tasks, as if no time had passed."""
        self.went_on_at = trio.current_time()
        if self._root is not None:
            self._world.stalls.go_on(self._root)

    def jump_clock(self, seconds: float) -> None:
        """Move the wall clock."""
        self._clock_offset_seconds += seconds

    def set_faults(self, log: LogFaults, store: StoreFaults) -> None:
        """Change the rates of faults, for this life and later ones."""
        self._log_faults, self._store_faults = log, store
        self._apply_faults()

    @contextmanager
    def without_log(self, url: str = "") -> Generator[None]:
        """Block all traffic between this machine and a log; url: "" for all logs."""
        self._log_outages[url] += 1
        self._apply_faults()
        try:
            yield
        finally:
            self._log_outages[url] -= 1
            self._apply_faults()

    @contextmanager
    def without_store(self) -> Generator[None]:
        """Block all traffic between this machine and the object store."""
        self._store_outages += 1
        self._apply_faults()
        try:
            yield
        finally:
            self._store_outages -= 1
            self._apply_faults()

    @contextmanager
    def refused_by_store(self, calls: frozenset[str]) -> Generator[None]:
        """Have the object store refuse these kinds of this machine's calls."""
        self._refused.update(calls)
        self._apply_faults()
        try:
            yield
        finally:
            self._refused.subtract(calls)
            self._apply_faults()

    @contextmanager
    def deaf_to_log(self) -> Generator[None]:
        """Lose all answers of the log to this machine."""
        self._log_deafness += 1
        self._apply_faults()
        try:
            yield
        finally:
            self._log_deafness -= 1
            self._apply_faults()

    @contextmanager
    def deaf_to_store(self) -> Generator[None]:
        """Lose all answers of the object store to this machine."""
        self._store_deafness += 1
        self._apply_faults()
        try:
            yield
        finally:
            self._store_deafness -= 1
            self._apply_faults()

    def _apply_faults(self) -> None:
        for each in self._logs:
            is_out = self._log_outages[""] + self._log_outages[each.url] > 0
            each.log.faults = replace(self._log_faults, outage=float(is_out))
            each.deaf.is_deaf = self._log_deafness > 0
        if self._deaf_store is not None:
            self._deaf_store.is_deaf = self._store_deafness > 0
        if self._store is not None:
            outage = float(self._store_outages > 0)
            refused = frozenset(call for call, count in self._refused.items() if count > 0)
            self._store.faults = replace(self._store_faults, outage=outage, refused=refused)

    # -- its lives --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start a life, and another one after its end; forever."""
        self._root = trio.lowlevel.current_task()
        await trio.sleep(self._rng.random() * 0.01)
        while True:
            self._drain = trio.Event()
            self._scope = trio.CancelScope()
            with self._scope:
                await self._live()
            self._bury()
            await trio.sleep(0.1 + self._rng.random() * (0.2 if self._comes_back_fast else 5))
            self._comes_back_fast = False
            while self.is_held or trio.current_time() < self.away_until:  # noqa: ASYNC110 - as people do
                await trio.sleep(0.5)

    async def _live(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await self._serve(nursery)
                nursery.cancel_scope.cancel()
        except* GatewayFenced:
            self._count("fenced")
        except* (CoordinatorUnavailable, LogUnavailable, NodeIdInUse, trio.TooSlowError):
            self._count("start failed")
        except* StoreUnavailable as errors:
            self._stop_without_store(_causes(errors))
        except* (LogMisconfigured, StoreMisconfigured) as errors:
            self._refuse_to_start(_causes(errors))
        except* LogCorrupt as errors:
            self._stop_on_damage(_causes(errors))
        except* UnreadableEntry as errors:
            self._stop_on_damaged_entry(_causes(errors))
        except* ReleaseTooOld as errors:
            self._stop_as_too_old(_causes(errors))
        except* Exception as errors:
            self._die_of(_causes(errors))

    def _stop_without_store(self, causes: str) -> None:
        """Accept that a start failed without the store; a running process must survive."""
        if self.is_up:
            self._die_of(causes)
        self._count("start failed")

    def _refuse_to_start(self, causes: str) -> None:
        """Accept a refusal of an incomplete copy; complain if the log lost its end."""
        if self.is_up or not self.is_early or _LOST_ENTRIES in causes:
            self._die_of(causes)
        self._count("refused to start")

    def _stop_on_damage(self, causes: str) -> None:
        """Accept that a corrupt log stopped its reader; complain if the log is not corrupt."""
        if self.is_early and not self.is_up:
            self._refuse_to_start(causes)  # the copy has only just begun
        elif "injected" not in causes and not any(each.has_struck for each in self._damaged):
            self._die_of(causes)
        self._count("stopped by damage")

    def _stop_on_damaged_entry(self, causes: str) -> None:
        if not any(each.has_struck for each in self._damaged):
            self._die_of(causes)
        self._count("stopped by damage")

    def _stop_as_too_old(self, causes: str) -> None:
        """Accept that an older release stopped; complain if its incarnation was live."""
        live = self._world.watch.state.gateways.live
        if self.coordinator is not None and self.coordinator.incarnation in live:
            self._die_of(causes)
        self.was_too_old = True
        self._count("stopped as too old")

    def _die_of(self, causes: str) -> None:
        self._world.complain("gateway died", f"{self.name}: {causes}")

    def _bury(self) -> None:
        """Forget the life; its calls in the network and in the log's client still take effect."""
        self._forget()
        if self.coordinator is not None:
            self._world.coordinators.pop(self.coordinator.incarnation, None)
        self.coordinator = None
        logs, self._logs, self._store = self._logs, [], None
        for each in logs:
            self._world.nursery.start_soon(self._land_late, each.log)
        self.crash_point.disarm()

    async def _land_late(self, log: FaultyLog) -> None:
        await trio.sleep(self._rng.random() * LATE_SECONDS)
        await log.land_late()

    # -- the log and the store --------------------------------------------------------------------

    def _open(self, url: str | None = None) -> tuple[MetadataLog, ObjectStore]:
        """Return the log and the store of a new life; url: of the log, else one of the settings."""
        world = self._world
        store = self._store = FaultyStore(
            world.store, self._store_faults, self._rng, world.nursery, world.strikes
        )
        self._deaf_store = DeafStore(store)
        self._damaged = []
        url = self._first_url() if url is None else url
        self.is_early = url != FIRST_LOG
        log = self._open_log(url)
        self._apply_faults()
        pointed = PointedStore(self._deaf_store, self._reach, self._read_object)
        return MovableLog(log, self._open_next) if world.plan.moves.is_on else log, pointed

    def _first_url(self) -> str:
        """Return the metadata.log setting of this life: the current log or any former one."""
        homes = self._world.homes
        return homes[0] if len(homes) == 1 else self._rng.choice(homes)

    def _open_log(self, url: str) -> MetadataLog:
        strikes = self._world.strikes
        log = FaultyLog(
            self._world.log_at(url),
            self._log_faults,
            self._rng,
            is_due=lambda kind: strikes.is_due(f"log.{kind}"),
            count=lambda kind: strikes.count(f"log.{kind}"),
        )
        opened = _OpenedLog(url, log, DeafLog(log))
        self._logs.append(opened)
        self._apply_faults()
        return PointedLog(self._damaging(opened.deaf), self._reach)

    def _damaging(self, log: MetadataLog) -> MetadataLog:
        strikes, rate = self._world.strikes, self._world.plan.versions.damage_rate
        if not rate:
            return log

        def strike() -> bool:
            is_due = self._rng.random() < rate or strikes.is_due(DAMAGE_KIND)
            strikes.count(DAMAGE_KIND, strikes.is_on and is_due)
            return strikes.is_on and is_due

        damaged = DamagedLog(log, self._rng, strike)
        self._damaged.append(damaged)
        return damaged

    async def _open_next(self, url: str) -> MetadataLog:
        await trio.lowlevel.checkpoint()
        url = self.next_log or url
        if self._log_outages[url] or self._log_outages[""]:
            raise LogUnavailable("injected: no connection")
        return self._open_log(url)

    def _wall_clock(self) -> float:
        true = self._world.wall_clock()
        gained = (self._clock_rate - 1.0) * trio.current_time()
        return true + gained + self._clock_offset_seconds

    def _reach(self, where: str) -> None:
        if self.crash_point.is_reached(where):
            self._count("crash_point")
            self.crash()

    def _watch(self, coordinator: Coordinator) -> None:
        """Compare the replica's state with the watch's, now and then."""
        self.coordinator = coordinator
        self._world.coordinators[coordinator.incarnation] = coordinator
        who = f"{self.name}, incarnation {coordinator.incarnation}"
        self._world.watch.replays.compare(who, coordinator.state)

        def on_change(touched: set[int]) -> None:
            if coordinator.state.position % COMPARED_ENTRIES == 0:
                self._world.watch.replays.compare(who, coordinator.state)

        coordinator.listen(on_change, EVERY_ENTRY)


def _causes(error: BaseException) -> str:
    """Return the errors without the exception groups around them."""
    if not isinstance(error, BaseExceptionGroup):
        return repr(error)
    group = cast("BaseExceptionGroup[BaseException]", error)
    return "; ".join(_causes(each) for each in group.exceptions)
