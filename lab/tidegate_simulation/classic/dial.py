"""Runs the brokers of a model cluster, and connects to them as a client would, with faults.

    async with open_servers(cluster, rng) as servers:
        stream = await servers.dial("kafka1", 9092)

Connections are in memory; each is served by a task of the servers' nursery.  Only Trio's clock and
the given Random decide what happens when.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

import trio

from ..world.network import Link
from ..world.transport_stream import TransportStream
from .broker_state import BrokerState
from .fetch_sessions import FetchSessions
from .model_broker import ModelBroker
from .model_cluster import ModelCluster
from .model_topics import PartitionKey
from .rights import ANONYMOUS
from .signals import Signals

START_MS: Final = 1_700_000_000_000
"""The wall clock at second 0 of Trio's clock, unless told otherwise."""


@dataclass(slots=True)
class DialFaults:
    """Faults of new connections to a broker: shares of 1, drawn for each connection.

    refuse: no connection.  hang: no answer to the attempt.  slow: a few bytes a second.
    reset: breaks within reset_seconds.
    """

    refuse: float = 0.0
    hang: float = 0.0
    slow: float = 0.0
    reset: float = 0.0
    reset_seconds: float = 5.0


@dataclass(slots=True, eq=False)
class _Life:
    """A running broker with its connections."""

    broker: ModelBroker
    links: dict[Link, None] = field(default_factory=dict[Link, None])
    scopes: dict[trio.CancelScope, None] = field(default_factory=dict[trio.CancelScope, None])


def _no_pause() -> float:
    return 0.0


class ClassicServers:
    """See the module's head.  Make one with open_servers().

    latency_seconds: the longest delay of a piece of bytes.
    append_pause: seconds between the checks of a batch and its append, drawn for each batch: a
    leader may append what it checked before a change of configs.
    faults: by node id.
    """

    def __init__(
        self, cluster: ModelCluster, rng: Random, nursery: trio.Nursery, start_ms: int
    ) -> None:
        self.cluster = cluster
        self.latency_seconds = 0.0
        self.append_pause: Callable[[], float] = _no_pause
        self.faults: dict[int, DialFaults] = {}
        self.signals = Signals()
        self._rng = rng
        self._nursery = nursery
        self._start_ms = start_ms
        self._lives: dict[int, _Life] = {}
        cluster.changed = self._changed

    def _changed(self, key: PartitionKey | None) -> None:
        if key is None:
            self.signals.notify_all()
        else:
            self.signals.notify(key)

    # -- brokers ----------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """The brokers' wall clock."""
        return self._start_ms + int(trio.current_time() * 1000)

    def stop_broker(self, node_id: int) -> None:
        """Kill a broker: its connections break, others lead."""
        life = self._lives.pop(node_id, None)
        if life is not None:
            for scope in life.scopes:
                scope.cancel()
            for link in life.links:
                link.reset()
        self.cluster.stop_broker(node_id, trio.current_time())

    def start_broker(self, node_id: int) -> None:
        """Let a broker come back; it knows no fetch session."""
        self.cluster.start_broker(node_id, trio.current_time())

    def forget_sessions(self, node_id: int) -> None:
        """Lose a broker's fetch sessions."""
        life = self._lives.get(node_id)
        if life is not None:
            life.broker.state.sessions.forget_all()

    def _life(self, node_id: int) -> _Life:
        life = self._lives.get(node_id)
        if life is None:
            state = BrokerState(
                self.cluster,
                node_id,
                self._nursery,
                self.signals,
                FetchSessions(self._rng),
                self._start_ms,
                self._pause,
            )
            life = self._lives[node_id] = _Life(ModelBroker(state))
        return life

    def _pause(self) -> float:
        return self.append_pause()

    # -- connections ------------------------------------------------------------------------------

    async def dial(self, host: str, port: int, *, principal: str = ANONYMOUS) -> trio.abc.Stream:
        """Connect to the broker at an address.

        Raises:
          ConnectionRefusedError: nothing listens there, or a fault says so.
        """
        await trio.lowlevel.checkpoint()
        node_id = self._node_at(host, port)
        faults = self.faults.get(node_id, DialFaults())
        if self._rng.random() < faults.hang:
            await trio.sleep_forever()  # the caller's deadline ends it
        if self._rng.random() < faults.refuse:
            raise ConnectionRefusedError(f"{host}:{port} refuses")
        life = self._life(node_id)
        link = Link((principal, 1), self._rng, self.latency_seconds)
        life.links[link] = None
        if self._rng.random() < faults.slow:
            link.trickle()
        if self._rng.random() < faults.reset:
            self._nursery.start_soon(self._reset_later, life, link, faults.reset_seconds)
        self._nursery.start_soon(self._carry, life, link)
        self._nursery.start_soon(self._serve, life, link, principal)
        return TransportStream(link.client)

    async def serve(
        self, node_id: int, stream: trio.abc.Stream, *, principal: str = ANONYMOUS
    ) -> None:
        """Serve a stream that was opened in another way, such as a socket, until it closes."""
        await self._life(node_id).broker.serve(stream, principal)

    def _node_at(self, host: str, port: int) -> int:
        for node in self.cluster.running:
            if (node.host, node.port) == (host, port):
                return node.node_id
        raise ConnectionRefusedError(f"no broker listens at {host}:{port}")

    async def _carry(self, life: _Life, link: Link) -> None:
        await link.run()
        life.links.pop(link, None)

    async def _serve(self, life: _Life, link: Link, principal: str) -> None:
        with trio.CancelScope() as scope:
            life.scopes[scope] = None
            await life.broker.serve(TransportStream(link.server), principal)
        life.scopes.pop(scope, None)

    async def _reset_later(self, life: _Life, link: Link, seconds: float) -> None:
        await trio.sleep(self._rng.random() * seconds)
        life.links.pop(link, None)
        link.reset()

    def reset(self, node_id: int) -> int:
        """Break the connections to a broker; return their number."""
        links = self._links(node_id)
        for link in links:
            self._lives[node_id].links.pop(link, None)
            link.reset()
        return len(links)

    def hang(self, node_id: int) -> None:
        """Let the connections to a broker carry nothing until flow()."""
        for link in self._links(node_id):
            link.hang()

    def slow(self, node_id: int) -> None:
        """Let the connections to a broker carry a few bytes a second until flow()."""
        for link in self._links(node_id):
            link.trickle()

    def flow(self, node_id: int) -> None:
        """Let the connections to a broker carry on."""
        for link in self._links(node_id):
            link.flow()

    def _links(self, node_id: int) -> list[Link]:
        life = self._lives.get(node_id)
        return list(life.links) if life is not None else []


@asynccontextmanager
async def open_servers(
    cluster: ModelCluster, rng: Random, *, start_ms: int = START_MS
) -> AsyncGenerator[ClassicServers]:
    """Run a cluster's brokers inside the block; all connections end with it."""
    async with trio.open_nursery() as nursery:
        yield ClassicServers(cluster, rng, nursery, start_ms)
        nursery.cancel_scope.cancel()
