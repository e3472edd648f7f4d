"""Connections that never log in: they hang, silent or in the middle of a request.

A gateway closes each of them within ten seconds, or sooner to make room for others.
"""

from __future__ import annotations

from typing import Final

import trio

from tidegate_gateway.network.memory_transport import MemoryTransport
from tidegate_gateway.network.transport import TransportBroken
from tidegate_gateway.security.sasl.gate import AUTHENTICATION_SECONDS

from ..clients.client import Client
from ..clients.workload import Workload
from ..plans.security.login_plan import LISTENER, MOST_PIECES, STRANGERS
from ..world.world import NotReachable

# No bytes; half of a length; a length alone; a frame with half of a header; an HTTP request.
_WORDS: Final = (b"", b"\0\0", b"\0\0\0\x40", b"\0\0\0\x04\0\x11\0\1", b"GET / HTTP/1.1\r\n\r\n")
# A gateway looks once a second for clients that are too slow.
_SLACK_SECONDS: Final = 3.0


class Strangers:
    """Opens connections in crowds, of one address or of many."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload

    async def run(self) -> None:
        """Connect and hang until no operation is left."""
        while self._workload.take():
            crowd = self._come(self.client.rng.choice(sorted(self.client.world.nodes)))
            await trio.sleep(self.client.rng.uniform(0.0, 2 * AUTHENTICATION_SECONDS))
            for opened_at, transport in crowd:
                self._leave(opened_at, transport)
            self.client.world.strikes.count("logins.strangers", len(crowd))

    def _come(self, node_id: int) -> list[tuple[float, MemoryTransport]]:
        crowd: list[tuple[float, MemoryTransport]] = []
        count = self.client.rng.randint(1, 3 * STRANGERS)
        addresses = self.client.rng.choice((1, count, count))
        for each in range(count):
            name = f"{self.client.name}-{each % addresses}"
            try:
                transport = self.client.world.nodes[node_id].connect(name, LISTENER)
                transport.send_nowait([memoryview(self.client.rng.choice(_WORDS))])
            except (NotReachable, TransportBroken):
                continue
            crowd.append((trio.current_time(), transport))
        return crowd

    def _leave(self, opened_at: float, transport: MemoryTransport) -> None:
        world = self.client.world
        slack = _SLACK_SECONDS + MOST_PIECES * world.plan.latency_seconds
        is_late = trio.current_time() - opened_at > AUTHENTICATION_SECONDS + slack
        if is_late and world.plan.logins.is_calm and not _is_closed(transport):
            world.complain("a stranger stayed", f"since {opened_at:.3f} s")
        transport.close()


def _is_closed(transport: MemoryTransport) -> bool:
    buffer = memoryview(bytearray(1000))
    try:
        while size := transport.receive_nowait(buffer):
            pass
        return size == 0  # None: nothing has come yet
    except TransportBroken:
        return True
