"""One machine that runs a gateway, life after life: it is started, dies, and is started again."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

import trio

from tidegate_coordination.coordinator import CoordinatorUnavailable, GatewayFenced
from tidegate_coordination.events import Endpoint
from tidegate_coordination.logs.faulty import FaultyLog, LogFaults
from tidegate_coordination.metadata_log import LogCorrupt, LogUnavailable
from tidegate_gateway.blocking import Inline
from tidegate_gateway.broker_settings import BrokerSettings
from tidegate_gateway.gateway import Gateway, Identity
from tidegate_gateway.memory_transport import MemoryTransport
from tidegate_gateway.startup import NodeIdInUse
from tidegate_storage.object_store import StoreUnavailable

from .crash_points import CrashPoint, PointedLog, PointedStore
from .network import Link
from .store import FaultyStore, StoreFaults
from .world import NotReachable, World

LISTENER = "PLAINTEXT"
CLUSTER_ID = "simulated-cluster-0000"
LATE_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class _Life:
    """What dies with a process."""

    gateway: Gateway
    nursery: trio.Nursery

    @property
    def is_ending(self) -> bool:
        """Tell whether it takes no new task."""
        return self.nursery.cancel_scope.cancel_called


class Node:
    """See the module's head.

    clock_offset_seconds: how wrong its wall clock is; clock_rate: its seconds in a true one.
    """

    def __init__(
        self, world: World, node_id: int, clock_offset_seconds: float, clock_rate: float = 1.0
    ) -> None:
        self.node_id = node_id
        self.links: dict[Link, None] = {}
        self.crash_point = CrashPoint()
        self.is_unreachable = False
        self._log_faults = LogFaults()
        self._store_faults = StoreFaults()
        self._log_outages = 0
        self._store_outages = 0
        self._comes_back_fast = False
        self._world = world
        self._rng = world.rng(f"node {node_id}")
        self._clock_offset_seconds = clock_offset_seconds
        self._clock_rate = clock_rate
        self._root: trio.lowlevel.Task | None = None
        self._life: _Life | None = None
        self._scope = trio.CancelScope()
        self._drain = trio.Event()
        self._log: FaultyLog | None = None
        self._store: FaultyStore | None = None

    @property
    def gateway(self) -> Gateway | None:
        """Return the gateway, while it serves."""
        return self._life.gateway if self._life is not None else None

    # -- what befalls it --------------------------------------------------------------------------

    def crash(self, *, comes_back_fast: bool = False) -> None:
        """Die at once; all memory is lost."""
        self._comes_back_fast = comes_back_fast
        self.go_on()
        self._scope.cancel()

    def drain(self) -> None:
        """Stop in order, and start again."""
        self._drain.set()

    def stall(self) -> None:
        """Stand still, until go_on(); the world does not."""
        if self._root is not None:
            self._world.stalls.stop(self._root)

    def go_on(self) -> None:
        """Wake up, as if no time had passed."""
        if self._root is not None:
            self._world.stalls.go_on(self._root)

    def jump_clock(self, seconds: float) -> None:
        """Move the wall clock."""
        self._clock_offset_seconds += seconds

    def cut(self) -> int:
        """Reset all connections; return how many there were."""
        count = len(self.links)
        for link in self.links:
            link.reset()
        self.links.clear()
        return count

    def set_faults(self, log: LogFaults, store: StoreFaults) -> None:
        """Change what goes wrong, in this life and later ones."""
        self._log_faults, self._store_faults = log, store
        self._apply_faults()

    @contextmanager
    def without_log(self) -> Generator[None]:
        """Let nothing pass between this gateway and the log."""
        self._log_outages += 1
        self._apply_faults()
        try:
            yield
        finally:
            self._log_outages -= 1
            self._apply_faults()

    @contextmanager
    def without_store(self) -> Generator[None]:
        """Let nothing pass between this gateway and the object store."""
        self._store_outages += 1
        self._apply_faults()
        try:
            yield
        finally:
            self._store_outages -= 1
            self._apply_faults()

    def _apply_faults(self) -> None:
        if self._log is not None:
            self._log.faults = replace(self._log_faults, outage=float(self._log_outages > 0))
        if self._store is not None:
            outage = float(self._store_outages > 0)
            self._store.faults = replace(self._store_faults, outage=outage)

    def connect(self, process: str) -> MemoryTransport:
        """Open a connection and return the client's end.

        Raises:
          NotReachable: it is down.
        """
        life = self._life
        if life is None or life.is_ending or self._scope.cancel_called or self.is_unreachable:
            raise NotReachable(f"node {self.node_id} does not answer")
        link = Link((process, 1), self._rng, self._world.plan.latency_seconds)
        self.links[link] = None
        self._world.nursery.start_soon(self._carry, link)
        life.nursery.start_soon(life.gateway.serve, link.server, LISTENER)
        return link.client

    async def _carry(self, link: Link) -> None:
        await link.run()
        self.links.pop(link, None)

    # -- its lives --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live, die, and live again; forever."""
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

    async def _live(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await self._serve(nursery)
                nursery.cancel_scope.cancel()
        except* GatewayFenced:
            self._world.strikes.count("fenced")
        except* (CoordinatorUnavailable, LogUnavailable, NodeIdInUse, trio.TooSlowError):
            self._world.strikes.count("start failed")
        except* StoreUnavailable as errors:
            self._stop_without_store(_causes(errors))
        except* LogCorrupt as errors:
            self._stop_on_damage(_causes(errors))
        except* Exception as errors:
            self._die_of(_causes(errors))

    def _stop_without_store(self, causes: str) -> None:
        """A gateway that cannot reach the store may give up its start, and nothing else."""
        if self._life is not None:
            self._die_of(causes)
        self._world.strikes.count("start failed")

    def _stop_on_damage(self, causes: str) -> None:
        """A log that is corrupt stops a gateway, and must; but only such a log."""
        if "injected" not in causes:
            self._die_of(causes)
        self._world.strikes.count("stopped by damage")

    def _die_of(self, causes: str) -> None:
        self._world.complain("gateway died", f"node {self.node_id}: {causes}")

    async def _serve(self, nursery: trio.Nursery) -> None:
        gateway = self._make()
        await gateway.start(nursery)
        self._world.lives += 1
        self._watch(gateway)
        self._life = _Life(gateway, nursery)
        await self._drain.wait()
        await gateway.drain()
        self._world.strikes.count("drained")

    def _bury(self) -> None:
        """Forget the life; what it left in the network and in the log's client still happens."""
        self._life = None
        self.cut()
        log, self._log, self._store = self._log, None, None
        if log is not None:
            self._world.nursery.start_soon(self._land_late, log)
        self.crash_point.disarm()

    async def _land_late(self, log: FaultyLog) -> None:
        await trio.sleep(self._rng.random() * LATE_SECONDS)
        await log.land_late()

    def _make(self) -> Gateway:
        world = self._world
        strikes = world.strikes
        log = self._log = FaultyLog(
            world.log,
            self._log_faults,
            self._rng,
            is_due=lambda kind: strikes.is_due(f"log.{kind}"),
            count=lambda kind: strikes.count(f"log.{kind}"),
        )
        store = self._store = FaultyStore(
            world.store, self._store_faults, self._rng, world.nursery, strikes
        )
        self._apply_faults()
        identity = Identity(
            self.node_id,
            f"key-{self.node_id}",
            f"zone-{self.node_id}",
            (Endpoint(LISTENER, f"node{self.node_id}", 9092),),
            "0",
            CLUSTER_ID,
        )
        return Gateway(
            identity,
            BrokerSettings({**world.settings, "node.id": str(self.node_id)}),
            store=PointedStore(store, self._reach),
            log=PointedLog(log, self._reach),
            rng=self._rng,
            wall_clock=self._wall_clock,
            blocking=Inline(),
        )

    def _wall_clock(self) -> float:
        true = self._world.wall_clock()
        gained = (self._clock_rate - 1.0) * trio.current_time()
        return true + gained + self._clock_offset_seconds

    def _reach(self, where: str) -> None:
        if self.crash_point.is_reached(where):
            self._world.strikes.count("crash_point")
            self.crash()

    def _watch(self, gateway: Gateway) -> None:
        coordinator = gateway.coordinator
        who = f"node {self.node_id}, incarnation {coordinator.incarnation}"
        self._world.watch.compare(who, coordinator.state)

        def on_change(touched: set[int]) -> None:
            if coordinator.state.position % 5 == 0:
                self._world.watch.compare(who, coordinator.state)

        coordinator.listen(on_change)


def _causes(error: BaseException) -> str:
    """Return what is wrong, without the groups around it."""
    if not isinstance(error, BaseExceptionGroup):
        return repr(error)
    group = cast("BaseExceptionGroup[BaseException]", error)
    return "; ".join(_causes(each) for each in group.exceptions)
