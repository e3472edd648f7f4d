"""A client that looks for offsets by time."""

from __future__ import annotations

from ..world.world import EPOCH_SECONDS
from .client import Client
from .readers import list_one
from .workload import Workload


class Seeker:
    """Asks for the first record of a past or future time, of keys with the senders' times."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._history = workload.world.history

    async def run(self) -> None:
        """Ask until no operation is left."""
        rng, world = self.client.rng, self._workload.world
        began_ms = int(world.wall_clock() * 1000)
        while self._workload.take():
            keys = [k for k in self._workload.keys if k.number not in self._workload.append_time]
            key = rng.choice(keys)
            now_ms = int(world.wall_clock() * 1000)
            stamp = rng.randint(began_ms, now_ms + 1000)
            value = {"key": key.number, "ts": stamp - int(EPOCH_SECONDS * 1000)}
            invoke = self._history.invoke(self.client.name, "seek", value)
            offset = await list_one(self.client, key, stamp)
            if offset is None:
                self._history.info(invoke)
            else:
                self._history.ok(invoke, offset=offset)
            await self.client.pause(3.0)
        self.client.close()
