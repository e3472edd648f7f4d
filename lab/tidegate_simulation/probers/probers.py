"""Clients that wait until the world is healed, and then check that gateways serve well."""

from __future__ import annotations

import trio

from ..clients.client import Client, Disconnected
from ..clients.producers import PlainProducer
from ..clients.readers import Reader, list_one
from ..clients.workload import Workload
from ..members.members import GroupMember, Rejoin

SETTLE_SECONDS = 30.0
WAIT_MS = 30_000
_LATEST = -1


async def _until_healed(client: Client) -> None:
    while not client.world.healed:  # noqa: ASYNC110 - the nemesis sends no event
        await trio.sleep(1.0)


class GroupProber(GroupMember):
    """Joins a group that other members may have left in the middle of a rebalance."""

    async def run(self) -> None:
        """Join, and leave."""
        await _until_healed(self.client)
        while True:
            try:
                await self.join()
                await self.leave()
                break
            except (Disconnected, Rejoin):
                await self.client.pause(1.0)
        self.client.close()


class WakeProber:
    """Waits for a record in one long poll, and sends the record meanwhile."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._reader = Reader(workload, f"{name} reader", sessions=False)
        self._reader.max_wait_ms = WAIT_MS
        self._reader.rack = ""
        self._producer = PlainProducer(workload, f"{name} producer")

    async def run(self) -> None:
        """Poll twice."""
        await _until_healed(self.client)
        await trio.sleep(SETTLE_SECONDS)
        for _ in range(2):
            key = self.client.rng.choice(self._workload.keys)
            end = await list_one(self.client, key, _LATEST)
            if end is not None:
                self._reader.assign({key: end})
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._reader.poll)
                    await trio.sleep(3.0)
                    await self._producer.send_one(key)
        for client in (self.client, self._reader.client, self._producer.client):
            client.close()
