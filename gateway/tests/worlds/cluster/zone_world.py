"""Gateways of several zones that lend each other objects over HTTP in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from tests.worlds.cluster.peer_network import Network
from tests.worlds.fetch_world import Store, World
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.fetch.fetch_plan import FetchSettings
from tidegate_gateway.peers.peer_service import PeerService
from tidegate_gateway.peers.peers import HttpPeers
from tidegate_runtime.secret import Secret

MIB = 1 << 20
TOKEN = "shared-secret"


@dataclass(slots=True)
class Zones:
    """The gateways, in order of their node ids, with their network and store."""

    worlds: list[World]
    network: Network
    store: Store

    @property
    def gets(self) -> Counter[str]:
        """Return how often the store was asked for each object."""
        return Counter(key for key, _, _ in self.store.reads)

    async def catch_up(self) -> None:
        for each in self.worlds:
            await each.coordinator.catch_up()


@asynccontextmanager
async def zone_world(
    zones: Sequence[str],
    cache_bytes: int = 256 * MIB,
    *,
    zone_id_map: str = "",
    lends: bool = True,
    store: Store | None = None,
) -> AsyncIterator[Zones]:
    """Run a gateway for each entry of `zones`.

    The first one writes, and keeps what it writes in memory.  lends: whether the gateways have a
    peer.listener.
    """
    log, store = MemoryLog(), store or Store()
    async with trio.open_nursery() as nursery:
        network = Network(nursery)
        worlds = [
            World(
                log,
                store,
                node_id,
                FetchSettings(),
                cache_bytes,
                zone=zone,
                peers=HttpPeers(network.dial, Secret(TOKEN)),
                zone_id_map=zone_id_map,
            )
            for node_id, zone in enumerate(zones, 1)
        ]
        for world in worlds:
            nursery.start_soon(world.coordinator.run)
            nursery.start_soon(world.read_ahead.run)
            await world.register(lends=lends)
            service = PeerService(world.coordinator, log, Secret(TOKEN), world.lender)
            network.services[f"node{world.node_id}"] = service
        worlds[0].adopts = True
        found = Zones(worlds, network, store)
        await found.catch_up()
        yield found
        nursery.cancel_scope.cancel()
