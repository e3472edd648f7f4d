"""Applies the cuts that zone_plan.py lists: for a while nothing passes between two parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import trio

from ..plans.gateways.zone_plan import PREFIX
from ..world.cuts import Pair
from ..world.network import Link, Wire
from ..world.node import Node
from ..world.world import World

_MIN_SECONDS: Final = 1.0
_MAX_SECONDS: Final = 50.0
_CLIENT_SHARE: Final = 0.5


class Partitions:
    """events: functions by kind of fault; each is called with a gateway."""

    def __init__(self, world: World, nodes: Sequence[Node]) -> None:
        self.events: dict[str, Callable[[Node], Awaitable[None]]] = {
            f"{PREFIX}log": self._deaf_to_log,
            f"{PREFIX}store": self._without_store,
            f"{PREFIX}store_deaf": self._deaf_to_store,
            f"{PREFIX}peers": self._peers,
            f"{PREFIX}clients": self._clients,
            f"{PREFIX}zones": self._zones,
            f"{PREFIX}alone": self._alone,
        }
        self._world = world
        self._nodes = nodes
        self._rng = world.rng("partitions")

    async def _pause(self) -> None:
        await trio.sleep(self._rng.uniform(_MIN_SECONDS, _MAX_SECONDS))

    def _count(self, kind: str, node: Node) -> None:
        self._world.strikes.count(f"{PREFIX}{kind}", node.is_up)

    async def _deaf_to_log(self, node: Node) -> None:
        self._count("log", node)
        with node.deaf_to_log():
            await self._pause()

    async def _without_store(self, node: Node) -> None:
        self._count("store", node)
        with node.without_store():
            await self._pause()

    async def _deaf_to_store(self, node: Node) -> None:
        self._count("store_deaf", node)
        with node.deaf_to_store():
            await self._pause()

    async def _peers(self, node: Node) -> None:
        other = self._rng.choice([each for each in self._nodes if each is not node])
        self._count("peers", node)
        with self._world.cuts.between(self._directed(node.name, other.name)):
            await self._pause()

    async def _clients(self, node: Node) -> None:
        """Cut off the clients of a gateway.

        Choose a gateway that has clients, because the cut has no effect at others.
        """
        busy = [each for each in self._nodes if self._clients_of(each)]
        if not busy:
            await trio.lowlevel.checkpoint()
            return
        node = node if node in busy else self._rng.choice(busy)
        names = self._clients_of(node)
        cut = [each for each in names if self._rng.random() < _CLIENT_SHARE] or names[:1]
        self._world.strikes.count(f"{PREFIX}clients", len(cut))
        direction = self._rng.randrange(3)
        with self._between([pair for each in cut for pair in _pairs(each, node.name, direction)]):
            await self._pause()

    def _clients_of(self, node: Node) -> list[str]:
        """Return the clients that are connected to a gateway, without other gateways."""
        gateways = {each.name for each in self._nodes}
        return sorted({link.process for link in node.links} - gateways)

    async def _zones(self, node: Node) -> None:
        mine = node.zone
        other = self._rng.choice([each for each in self._world.plan.zones.names if each != mine])
        self._count("zones", node)
        with self._between(self._directed(mine, other)):
            await self._pause()

    async def _alone(self, node: Node) -> None:
        self._count("alone", node)
        names = [each for each in self._world.plan.zones.names if each != node.zone]
        pairs = [pair for each in names for pair in _pairs(node.zone, each, 0)]
        with ExitStack() as outages:
            outages.enter_context(self._between(pairs))
            for each in self._nodes:
                if each.zone == node.zone:
                    outages.enter_context(each.without_log())
                    outages.enter_context(each.without_store())
            await self._pause()

    def _directed(self, one: str, other: str) -> list[Pair]:
        return _pairs(one, other, self._rng.randrange(3))

    @contextmanager
    def _between(self, pairs: list[Pair]) -> Generator[None]:
        """Cut two parts from each other, open connections included."""
        with self._world.cuts.between(pairs):
            hung = [
                wire
                for node in self._nodes
                for link in node.links
                for wire in self._cut(node, link)
            ]
            for wire in hung:
                wire.hang()
            try:
                yield
            finally:
                for wire in hung:
                    wire.flow()

    def _cut(self, node: Node, link: Link) -> list[Wire]:
        reaches = self._world.cuts.reaches
        ways = ((link.process, node.name), (node.name, link.process))
        return [wire for wire, way in zip(link.wires, ways, strict=True) if not reaches(*way)]


def _pairs(one: str, other: str, direction: int) -> list[Pair]:
    """Return the pairs to cut.  direction: 0 for both, 1 from one to the other, 2 back."""
    return [[(one, other), (other, one)], [(one, other)], [(other, one)]][direction]
