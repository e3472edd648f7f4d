"""Gateways on one log and one store, in trio's time, each with a wall clock that may be wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import trio

from tests.worlds.cluster.peer_network import Network
from tests.worlds.wire_client import NOW_MS, WORLD_SECONDS, WireClient, WireWorld
from tidegate_coordination.client.properties.client import ClientProperties
from tidegate_coordination.client.wire.dialling import Dial, dial_of
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.forwarding.leaders import PEER_LISTENER
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogEntry,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.builder import GatewayBuilder
from tidegate_gateway.environment import Environment, Identity
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.peers.peers import HttpPeers
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.work.pools import Pools, inline_pools
from tidegate_protocol.messages import heartbeat as hb
from tidegate_protocol.messages import join_group as jg
from tidegate_protocol.messages import offset_commit as oc
from tidegate_protocol.messages import sync_group as sg
from tidegate_runtime.secret import Secret
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import ObjectStore

LISTENER = "PLAINTEXT"


class OutageLog(MemoryLog):
    """A log that does not work while it is away: calls fail after a second, or get no answer."""

    is_away = False
    is_silent = False

    async def _reach(self) -> None:
        while self.is_away:
            await trio.sleep(1)
            if not self.is_silent:
                raise LogUnavailable("the log is away")

    async def append(self, position: int, payload: bytes) -> AppendResult:
        await self._reach()
        return await super().append(position, payload)

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        await self._reach()
        return await super().read(from_position, max_bytes)

    async def load_snapshot(self) -> Snapshot | None:
        await self._reach()
        return await super().load_snapshot()


@dataclass(slots=True)
class Clock:
    """A wall clock.  offset_seconds: how far it is ahead of the true time now."""

    offset_seconds: float = 0.0

    def __call__(self) -> float:
        return NOW_MS / 1000 + trio.current_time() + self.offset_seconds


@dataclass(slots=True)
class Running:
    """One gateway. stop() crashes it; drain() ends it in order."""

    world: WireWorld
    gateway: Gateway
    clock: Clock
    scope: trio.CancelScope

    def stop(self) -> None:
        self.scope.cancel()

    async def drain(self) -> None:
        await self.gateway.drain()
        self.stop()


@dataclass(slots=True)
class Cluster:
    """The shared parts of the gateways.

    network: None if the gateways do not ask each other.  source_dial: connects to the brokers of
        links.
    """

    nursery: trio.Nursery
    settings: dict[str, str]
    log: OutageLog = field(default_factory=OutageLog)
    store: MemoryObjectStore = field(default_factory=MemoryObjectStore)
    network: Network | None = None
    source_dial: Dial | None = None

    async def start(
        self,
        node_id: int,
        clock: Clock,
        key: str = "",
        zone: str = "az1",
        log: MetadataLog | None = None,
        store: ObjectStore | None = None,
        pools: Pools | None = None,
    ) -> Running:
        """Start or restart a gateway; return once it serves.

        log, store: the gateway's own connections to them.  pools: its threads; None: it works in
            the event loop.
        """
        builder = GatewayBuilder(
            Identity(
                node_id,
                key or f"key-{node_id}",
                zone,
                (Endpoint(LISTENER, f"node{node_id}", 9092),),
                "0",
                "cluster-of-tests",
                Endpoint(PEER_LISTENER, f"node{node_id}", 9644) if self.network else None,
            ),
            BrokerSettings({**self.settings, "node.id": str(node_id)}),
            Environment(
                store=store or self.store,
                log=log or self.log,
                rng=Random(node_id),
                wall_clock=clock,
                pools=pools or inline_pools(),
                peers=HttpPeers(self.network.dial, Secret()) if self.network else None,
                source_dial=self._source_dial,
            ),
        )
        running: Running = await self.nursery.start(self._live, builder, clock)
        return running

    def _source_dial(self, properties: ClientProperties) -> Dial:
        return self.source_dial or dial_of(properties)

    async def _live(
        self, builder: GatewayBuilder, clock: Clock, task_status: trio.TaskStatus[Running]
    ) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                gateway = await builder.start(nursery)
                self._serve_peers(gateway)
                async with trio.open_nursery() as connections:
                    world = WireWorld(gateway, connections)
                    task_status.started(Running(world, gateway, clock, scope))
                    await trio.sleep_forever()

    def _serve_peers(self, gateway: Gateway) -> None:
        if self.network is not None:
            assert gateway.peer_service is not None
            self.network.services[f"node{gateway.identity.node_id}"] = gateway.peer_service


@asynccontextmanager
async def cluster(settings: dict[str, str] | None = None) -> AsyncIterator[Cluster]:
    """Yield a cluster that has no gateways yet."""
    with trio.fail_after(WORLD_SECONDS):
        async with trio.open_nursery() as nursery:
            yield Cluster(nursery, settings or {})
            nursery.cancel_scope.cancel()


@dataclass(slots=True)
class Member:
    """The only member of a group, on one connection, as a librdkafka client would be.

    answers: the error codes of its heartbeats, in order.
    """

    client: WireClient
    group_id: str
    member_id: str
    generation: int
    answers: list[int] = field(default_factory=list)

    async def beat(self) -> int:
        """Send a heartbeat; return its error code."""
        request = hb.HeartbeatRequest(self.group_id, self.generation, self.member_id)
        code: int = (await self.client.call("Heartbeat", 4, request)).error_code
        self.answers.append(code)
        return code

    async def commit(self, topic: str, offset: int) -> int:
        """Commit an offset of partition 0; return its error code."""
        partition = oc.OffsetCommitRequestPartition(0, offset)
        request = oc.OffsetCommitRequest(
            self.group_id,
            self.generation,
            self.member_id,
            topics=[oc.OffsetCommitRequestTopic(topic, partitions=[partition])],
        )
        answer = await self.client.call("OffsetCommit", 8, request)
        code: int = answer.topics[0].partitions[0].error_code
        return code


async def joined(client: WireClient, group_id: str, session_ms: int) -> Member:
    """Join a group, and receive the assignment."""
    request = jg.JoinGroupRequest(
        group_id,
        session_ms,
        60_000,
        "",
        protocol_type="consumer",
        protocols=[jg.JoinGroupRequestProtocol("range", b"")],
    )
    told = await client.call("JoinGroup", 9, request)
    request.member_id = told.member_id
    found = await client.call("JoinGroup", 9, request)
    assert found.error_code == 0
    assignment = sg.SyncGroupRequestAssignment(found.member_id, b"all")
    request_sync = sg.SyncGroupRequest(
        group_id,
        found.generation_id,
        found.member_id,
        None,
        "consumer",
        "range",
        [assignment],
    )
    assert (await client.call("SyncGroup", 5, request_sync)).error_code == 0
    return Member(client, group_id, found.member_id, found.generation_id)
