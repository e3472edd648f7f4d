"""Which connections to other gateways are kept."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tests.worlds.cluster.peer_network import Network
from tidegate_coordination.events.cluster import Endpoint
from tidegate_gateway.peers.peers import FORGET_SECONDS, PeerClients


def endpoint(number: int) -> Endpoint:
    return Endpoint("peer", f"node{number}", 9644)


async def test_all_gateways_that_are_asked_keep_their_clients(autojump_clock: MockClock) -> None:
    """The number of clients has no bound, because to drop one would lose the call on it."""
    async with trio.open_nursery() as nursery:
        clients = PeerClients(Network(nursery).dial, 1)
        made = [await clients.client(endpoint(each)) for each in range(200)]
        await trio.sleep(FORGET_SECONDS - 1)
        for number in range(1, 200):
            assert await clients.client(endpoint(number)) is made[number]
        await trio.sleep(2)
        await clients.client(endpoint(1))
        assert len(clients) == 199  # the client that was not used any more is closed
        assert await clients.client(endpoint(0)) is not made[0]
        await clients.aclose()
