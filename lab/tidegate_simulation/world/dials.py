"""How simulated gateways connect to each other at the addresses that clients get.

A cut between clients and a gateway can also separate two gateways.  If a cut lies between two
gateways, or one of them is unreachable, a connection attempt gets no answer.  Where no gateway
listens, the connection is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

import trio

from .peers import Asker
from .transport_stream import TransportStream
from .world import NotReachable, World

_NODE: Final = "node"


def host_of(node_id: int) -> str:
    """Return the host name that clients use for a gateway."""
    return f"{_NODE}{node_id}"


class SimulatedDial:
    """See tidegate_gateway.peers.peers.Dial.  One for each life of a gateway."""

    def __init__(self, world: World, asker: Asker) -> None:
        self._world = world
        self._asker = asker

    def __call__(self, host: str, port: int) -> Callable[[], Coroutine[Any, Any, trio.abc.Stream]]:
        """Return a function that opens connections to a gateway."""
        node_id = int(host.removeprefix(_NODE))

        async def connect() -> trio.abc.Stream:
            return await self._connected(node_id)

        return connect

    async def _connected(self, node_id: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        asker, asked = self._asker, self._world.peers[node_id]
        is_cut = not self._world.cuts.connects(asker.name, asked.name)
        is_cut = is_cut or (asker.name, asked.name) in self._world.unseen
        if is_cut or asker.is_unreachable or asked.is_unreachable:
            await trio.sleep_forever()  # the caller's deadline ends it
        try:
            return TransportStream(self._world.nodes[node_id].connect(asker.name))
        except NotReachable as error:
            raise ConnectionRefusedError(str(error)) from error
