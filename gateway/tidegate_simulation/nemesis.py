"""Does to whole gateways what the plan says, until the world is healed."""

from __future__ import annotations

from collections.abc import Callable

import trio

from tidegate_coordination.logs.faulty import LogFaults

from .crash_points import PLACES
from .node import Node
from .store import StoreFaults
from .world import World

_NO_FAULTS = (LogFaults(), StoreFaults())
_UNREACHABLE = LogFaults(lost_append=1.0, read_error=1.0, snapshot_error=1.0, lost_wakeup=1.0)
_LOOK_SECONDS = 0.25


class Nemesis:
    """See the module's head."""

    def __init__(self, world: World, nodes: list[Node]) -> None:
        self._world = world
        self._nodes = nodes
        self._rng = world.rng("nemesis")

    async def run(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Trouble the world until is_over() or for so long; then heal it."""
        for node in self._nodes:
            node.set_faults(self._world.plan.log, self._world.plan.store)
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as troubles:
                if self._world.plan.events:
                    troubles.start_soon(self._trouble, troubles)
                while not is_over():  # noqa: ASYNC110 - counted by many
                    await trio.sleep(_LOOK_SECONDS)
                troubles.cancel_scope.cancel()
        self._heal()

    def _heal(self) -> None:
        for node in self._nodes:
            node.set_faults(*_NO_FAULTS)
            node.crash_point.disarm()
            for link in node.links:
                link.resume()
        self._world.healed = True
        self._world.history.note("nemesis", "info", "healed", None)

    async def _trouble(self, nursery: trio.Nursery) -> None:
        while True:
            await trio.sleep(self._rng.expovariate(1 / self._world.plan.event_seconds))
            node = self._rng.choice(self._nodes)
            match self._rng.choice(self._world.plan.events):
                case "crash":
                    await self._crash(node)
                case "crash_point":
                    node.crash_point.arm(self._rng.choice(PLACES), self._rng.randint(1, 3))
                case "drain":
                    node.drain()
                case "cut":
                    self._world.landed["cut"] += node.cut()
                case "hang":
                    nursery.start_soon(self._hang, node)
                case _:
                    nursery.start_soon(self._isolate, node)

    async def _crash(self, node: Node) -> None:
        """At any checkpoint of a burst of work."""
        for _ in range(self._rng.randrange(100)):
            await trio.lowlevel.checkpoint()
        self._world.landed["crash"] += node.gateway is not None
        node.crash()

    async def _hang(self, node: Node) -> None:
        links = list(node.links)
        self._world.landed["hang"] += len(links)
        for link in links:
            link.hang()
        await trio.sleep(self._rng.uniform(0.5, 50.0))
        for link in links:
            link.resume()

    async def _isolate(self, node: Node) -> None:
        self._world.landed["isolate"] += node.gateway is not None
        node.set_faults(_UNREACHABLE, node.store_faults)
        lease_seconds = int(self._world.settings["lease.ms"]) / 1000
        await trio.sleep(lease_seconds * self._rng.uniform(0.2, 3.0))
        node.set_faults(self._world.plan.log, self._world.plan.store)
