"""Asks any gateway, at any time, where clients of a zone should connect, and judges the answers.

The right answer follows from the answering gateway's replica and its set of absent gateways.  An
answer counts only if neither changed between request and answer: the gateway lived and was not cut
off from the log, and no gateway of its replica was new, drained, left, became absent or returned.

- A client that names its zone gets leaders of this zone that are neither draining nor absent, if
  the zone has any.
- A gateway remembers the rack of a client id only while all connections of the id name one rack.
- A consumer at another zone's gateway is sent to a gateway of its own zone, if Metadata showed that
  gateway as a replica.  The answer then has no records.  At a gateway of its own zone the consumer
  is not sent away.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_coordination.state.writers.gateways import Gateway as GatewayLife
from tidegate_coordination.state.writers.gateways import GatewayTable
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.store_way.marks import signs_of
from tidegate_gateway.zones.placement import NO_LEADER
from tidegate_protocol.messages import fetch, metadata

from ..clients.client import Client, ClientConnection, Disconnected
from ..clients.workload import Key, Workload
from ..world.node import Node
from ..world.world import NotReachable
from .neighbourhood import absent_of

ANSWER_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 4.0
LOOK_SECONDS: Final = 0.2
_METADATA_VERSION: Final = 12
_FETCH_VERSIONS: Final = (11, 12, 13, 17)
_BY_ID: Final = 13

_Marks = tuple[tuple[int, bool], ...]
_Version = tuple[int, int, bool, frozenset[int], _Marks]
Leaders = dict[tuple[str, int], tuple[int, list[int]]]
"""Topic id and partition -> leader, replicas.  By id, because a new topic may soon have the name.
"""


@dataclass(slots=True)
class _Watched:
    """A probed gateway.

    log_answered_at: when its metadata log had last answered, at the time of the choice.
    """

    node: Node
    gateway: Gateway
    version: _Version
    log_answered_at: float

    @property
    def table(self) -> GatewayTable:
        return self.gateway.coordinator.state.gateways

    @property
    def is_unchanged(self) -> bool:
        """Return whether all the gateway's answers since the choice use its present replica."""
        is_same = self.node.gateway is self.gateway and _version(self.gateway) == self.version
        return is_same and not self._may_have_been_cut_off_or_back

    @property
    def _may_have_been_cut_off_or_back(self) -> bool:
        """Return whether it may have been cut off from the log for a moment, or reconnected."""
        coordinator = self.gateway.coordinator
        if coordinator.is_stale:
            return coordinator.log_answered_at != self.log_answered_at
        return trio.current_time() >= self.log_answered_at + coordinator.stale_seconds

    def version_of(self, key: Key) -> int:
        """Return the version of a key's topic in its replica; -1 if there is none."""
        topic = self.gateway.coordinator.state.topics.by_id.get(key.topic_id)
        return topic.version if topic is not None else -1

    @property
    def leaving(self) -> list[GatewayLife]:
        """Return the draining gateways of its replica."""
        return [each for each in self.table.brokers() if each.draining]

    def connections_of(self, client_id: str) -> int:
        """Return the number of open connections of a client id at the gateway's end."""
        peers = [each.peer for each in self.gateway.connections]
        return sum(each.client_id == client_id for each in peers)

    def recommended(self, zone: str) -> set[int]:
        """Return the gateways of a zone that may lead, or else all gateways that may lead.

        Empty if the replica has no live gateway.
        """
        leading = self._leading()
        nearby = {each.node_id for each in leading if each.zone == zone}
        return nearby or {each.node_id for each in leading}

    def is_served(self, zone: str) -> bool:
        """Return whether a zone has a gateway that accepts new work and answers."""
        return any(each.zone == zone and not each.draining for each in self._leading())

    def _leading(self) -> list[GatewayLife]:
        brokers = self.table.brokers()
        serving = [each for each in brokers if not each.draining] or brokers
        absent = absent_of(self.node)
        return [each for each in serving if each.incarnation not in absent] or serving


class ZoneProber:
    """A client that asks for the gateways of a zone."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._rng = self.client.rng
        self._workload = workload
        self._world = workload.world

    async def run(self) -> None:
        """Ask until no operation is left."""
        while self._workload.operations_left > 0:
            watched = self._any_gateway()
            if watched is not None:
                with suppress(Disconnected, NotReachable):  # a fault: there is no answer to judge
                    await self._probe(watched)
            await self._pause()

    async def _probe(self, watched: _Watched) -> None:
        if watched.leaving:
            await self._probe_said(watched, self._rng.choice(watched.leaving).zone)
        else:
            probes = (self._probe_said, self._probe_racks, self._probe_moves)
            await self._rng.choice(probes)(watched, self._zone())

    async def _pause(self) -> None:
        """Wait a while, but return when a gateway begins to drain, because a drain is soon over."""
        before = self._leaving()
        until = trio.current_time() + self._rng.random() * PAUSE_SECONDS
        while trio.current_time() < until and self._leaving() <= before:  # noqa: ASYNC110 - no news
            await trio.sleep(LOOK_SECONDS)

    def _leaving(self) -> set[int]:
        """Return the incarnations that drain in some replica."""
        return {life.incarnation for each in self._gateways() for life in each.leaving}

    def _any_gateway(self) -> _Watched | None:
        """Return any gateway, preferably one whose replica shows another one draining."""
        gateways = self._gateways()
        some = [each for each in gateways if each.leaving] or gateways
        return self._rng.choice(some) if some else None

    def _gateways(self) -> list[_Watched]:
        nodes = [each for _, each in sorted(self._world.nodes.items()) if isinstance(each, Node)]
        return [
            _Watched(
                each,
                each.gateway,
                _version(each.gateway),
                each.gateway.coordinator.log_answered_at,
            )
            for each in nodes
            if each.gateway is not None
        ]

    def _zone(self) -> str:
        return self._rng.choice(self._world.plan.zones.names)

    # -- probes -----------------------------------------------------------------------------------

    async def _probe_said(self, watched: _Watched, zone: str) -> None:
        client_id = self._rng.choice((f"app,zone={zone}", f"automq_az={zone}&app-0"))
        async with self._connected(watched, client_id) as connection:
            told = await _leaders(connection)
        self._judge(watched, told, zone, f"{client_id} named it")

    async def _probe_racks(self, watched: _Watched, zone: str) -> None:
        """Let two connections of one client id fetch, and a third one ask."""
        racks = (zone, self._zone())
        name = f"{self.client.name} {self.client.link}"
        async with (
            self._connected(watched, name) as one,
            self._connected(watched, name) as two,
            self._connected(watched, name) as third,
            self._connected(watched, "nobody") as stranger,
        ):
            for connection, rack in zip((one, two), racks, strict=True):
                await self._fetched(connection, self._rng.choice(self._workload.keys), rack)
            told, to_all = await _leaders(third), await _leaders(stranger)
            # If the gateway closed a connection before its answer, the connection sent no rack.
            are_open = watched.connections_of(name) == len((one, two, third))
        if not are_open:
            return
        if racks[0] == racks[1]:
            self._judge(watched, told, racks[0], "both connections fetch with that rack")
        elif watched.is_unchanged and _different(told, to_all):
            other = _different(told, to_all)
            text = f"node {watched.node.node_id} tells {other}, though racks {racks} disagree"
            self._world.complain("zone remembered", text)

    async def _probe_moves(self, watched: _Watched, zone: str) -> None:
        key = self._rng.choice(self._workload.keys)
        version = watched.version_of(key)
        async with (
            self._connected(watched, f"{self.client.name} {self.client.link}") as consumer,
            self._connected(watched, "nobody") as stranger,
        ):
            to_all = await _leaders(stranger)
            part = await self._fetched(consumer, key, zone)
        shown = to_all.get((key.topic_id.hex(), key.partition))
        if shown is None or part is None or part.error_code or not watched.is_unchanged:
            return
        if watched.version_of(key) != version:
            return  # a growing topic has other leaders
        near = watched.recommended(zone) & set(shown[1])
        is_here = watched.gateway.identity.zone == zone
        must_move = bool(near) and not is_here and watched.is_served(zone)
        went = part.preferred_read_replica
        if (went in near and not part.records) if must_move else went < 0:
            self._world.strikes.count("zone.moved", must_move)
            return
        text = f"node {watched.node.node_id} sends a consumer of {zone} to {went}, not {near}"
        self._world.complain("wrong zone", text)

    def _judge(self, watched: _Watched, told: Leaders, zone: str, why: str) -> None:
        if not watched.is_unchanged:
            return
        allowed = watched.recommended(zone)
        self._world.strikes.count("zone.asked", watched.is_served(zone))
        for partition, (leader, replicas) in told.items():
            if not _is_right(leader, replicas, allowed):
                text = f"{partition} at node {watched.node.node_id}: leader {leader} for {zone}"
                self._world.complain("wrong zone", f"{text}, not of {allowed}; {why}")
                return

    # -- requests ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _connected(
        self, watched: _Watched, client_id: str
    ) -> AsyncGenerator[ClientConnection, None]:
        connection = ClientConnection(watched.node.connect(self.client.name), client_id)
        self.client.link += 1
        self._world.nursery.start_soon(connection.run)
        try:
            yield connection
        finally:
            connection.close()

    async def _fetched(
        self, connection: ClientConnection, key: Key, rack: str
    ) -> fetch.PartitionData | None:
        version = self._rng.choice(_FETCH_VERSIONS)
        asked = fetch.FetchPartition(key.partition, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = fetch.FetchTopic(
            "" if version >= _BY_ID else key.topic,
            key.topic_id if version >= _BY_ID else bytes(16),
            [asked],
        )
        request = fetch.FetchRequest(
            max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic], rack_id=rack
        )
        reply = await connection.send("Fetch", fetch, version, request)
        answer: fetch.FetchResponse = await reply.wait(ANSWER_SECONDS)
        parts = [part for each in answer.responses for part in each.partitions]
        return parts[0] if parts else None


def _version(gateway: Gateway) -> _Version:
    changes = gateway.view.neighbours.changes if gateway.view.neighbours is not None else 0
    version = gateway.coordinator.state.gateways.version
    # Gateways that are cut off from the store are absent, too, even if they answer probes.
    return version, changes, gateway.is_cut_off, gateway.absent, _marks(gateway)


def _marks(gateway: Gateway) -> _Marks:
    """Return values that change when a gateway loses the store, or reaches it again.

    Each mark is an abandoned object, and ends with a commit.
    """
    state = gateway.coordinator.state
    return tuple(
        (state.objects.abandoned_count(each.incarnation), each.is_marked)
        for each in signs_of(state)
    )


async def _leaders(connection: ClientConnection) -> Leaders:
    request = metadata.MetadataRequest(None, allow_auto_topic_creation=False)
    reply = await connection.send("Metadata", metadata, _METADATA_VERSION, request)
    answer: metadata.MetadataResponse = await reply.wait(ANSWER_SECONDS)
    return {
        (topic.topic_id.hex(), each.partition_index): (each.leader_id, list(each.replica_nodes))
        for topic in answer.topics
        for each in topic.partitions
    }


def _is_right(leader: int, replicas: list[int], allowed: set[int]) -> bool:
    """Return whether an allowed gateway leads and is the first replica.

    If the replica has no live gateway, as while it reads old entries, the answer must name none.
    """
    if not allowed:
        return leader == NO_LEADER and not replicas
    return leader in allowed and replicas[:1] == [leader]


def _different(one: Leaders, other: Leaders) -> dict[tuple[str, int], object]:
    """Return the partitions with different leaders, of topics that are the same in both answers.

    Topics that appear, vanish or grow between the answers are left out, because their leaders move.
    """
    grown = {topic for topic, _ in one.keys() ^ other.keys()}
    both = sorted(each for each in one.keys() & other.keys() if each[0] not in grown)
    return {each: (one[each], other[each]) for each in both if one[each] != other[each]}
