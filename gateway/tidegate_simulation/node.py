"""One machine that runs a gateway, life after life: it is started, dies, and is started again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import cast

import trio

from tidegate_coordination.coordinator import CoordinatorUnavailable, GatewayFenced
from tidegate_coordination.events import Endpoint
from tidegate_coordination.logs.faulty import FaultyLog, LogFaults
from tidegate_coordination.metadata_log import LogUnavailable
from tidegate_gateway.blocking import Inline
from tidegate_gateway.broker_settings import BrokerSettings
from tidegate_gateway.gateway import Gateway, Identity
from tidegate_gateway.memory_transport import MemoryTransport
from tidegate_gateway.startup import NodeIdInUse

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


class Node:
    """See the module's head.

    clock_offset_seconds: how wrong its wall clock is.
    """

    def __init__(self, world: World, node_id: int, clock_offset_seconds: float) -> None:
        self.node_id = node_id
        self.links: dict[Link, None] = {}
        self.log_faults = world.plan.log
        self.store_faults = world.plan.store
        self.crash_point = CrashPoint()
        self._world = world
        self._rng = world.rng(f"node {node_id}")
        self._clock_offset_seconds = clock_offset_seconds
        self._life: _Life | None = None
        self._scope = trio.CancelScope()
        self._drain = trio.Event()
        self._logs: list[FaultyLog] = []
        self._log: FaultyLog | None = None
        self._store: FaultyStore | None = None

    @property
    def gateway(self) -> Gateway | None:
        """Return the gateway, while it serves."""
        return self._life.gateway if self._life is not None else None

    # -- what befalls it --------------------------------------------------------------------------

    def crash(self) -> None:
        """Die at once; all memory is lost."""
        self._scope.cancel()

    def drain(self) -> None:
        """Stop in order, and start again."""
        self._drain.set()

    def cut(self) -> int:
        """Reset all connections; return how many there were."""
        count = len(self.links)
        for link in self.links:
            link.reset()
        self.links.clear()
        return count

    def set_faults(self, log: LogFaults, store: StoreFaults) -> None:
        """Change what goes wrong, in this life and later ones."""
        self.log_faults, self.store_faults = log, store
        if self._log is not None:
            self._log.faults = log
        if self._store is not None:
            self._store.faults = store

    def connect(self, process: str) -> MemoryTransport:
        """Open a connection and return the client's end.

        Raises:
          NotReachable: it is down.
        """
        life = self._life
        if life is None:
            raise NotReachable(f"node {self.node_id} is down")
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
        await trio.sleep(self._rng.random() * 0.01)
        while True:
            self._drain = trio.Event()
            self._scope = trio.CancelScope()
            with self._scope:
                await self._live()
            self._bury()
            await trio.sleep(0.1 + self._rng.random() * 5)

    async def _live(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                await self._serve(nursery)
                nursery.cancel_scope.cancel()
        except* GatewayFenced:
            self._world.landed["fenced"] += 1
        except* (CoordinatorUnavailable, LogUnavailable, NodeIdInUse, trio.TooSlowError):
            self._world.landed["start failed"] += 1
        except* Exception as errors:
            self._world.complain("gateway died", f"node {self.node_id}: {_causes(errors)}")

    async def _serve(self, nursery: trio.Nursery) -> None:
        gateway = self._make()
        await gateway.start(nursery)
        self._watch(gateway)
        self._life = _Life(gateway, nursery)
        await self._drain.wait()
        await gateway.drain()
        self._world.landed["drain"] += 1

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

    def log_faults_landed(self) -> Counter[str]:
        """Return what the logs of all lives have counted."""
        total: Counter[str] = Counter()
        for log in self._logs:
            total.update({f"log.{kind}": count for kind, count in log.landed.items()})
        return total

    def _make(self) -> Gateway:
        world = self._world
        log = self._log = FaultyLog(world.log, self.log_faults, self._rng)
        self._logs.append(log)
        store = self._store = FaultyStore(
            world.store, self.store_faults, self._rng, world.nursery, self._count_store_fault
        )
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
            wall_clock=lambda: world.wall_clock() + self._clock_offset_seconds,
            blocking=Inline(),
        )

    def _count_store_fault(self, kind: str) -> None:
        self._world.landed[f"store.{kind}"] += 1

    def _reach(self, where: str) -> None:
        if self.crash_point.is_reached(where):
            self._world.landed["crash_point"] += 1
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
