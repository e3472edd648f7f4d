"""The cluster as the clients of one listener and zone see it, cached until it changes.

A gateway that does not advertise the client's listener is not shown, and leads no partition there.
A draining gateway leads no partition either, unless all gateways drain.  As in Kafka, it stays a
broker for a moment.  The reason is that librdkafka drops a broker at once if Metadata does not name
it.  If that broker was the coordinator of a group, librdkafka then waits for it forever (its issue
5511).  So it must get NOT_COORDINATOR first.  A gateway that does not answer (neighbours.py) leads
no partition, but stays a replica.  Consumers would start a rebalance if the zones of a partition's
replicas changed (KIP-881), and this gateway may still be the coordinator of their group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import TypeAlias

import trio

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic
from tidegate_coordination.state.writers.gateways import Gateway

from ..network.call import Call
from ..network.turns import PLACED_PARTITION, Turns
from .placement import Placement, place, recommend, recommend_each
from .zone_finder import ZoneFinder

_Choices: TypeAlias = dict[tuple[bytes, str | None], list[int]]
"""Topic id and zone (None: all zones) -> node id of the recommended gateway, by partition."""


@dataclass(frozen=True, slots=True)
class Node:
    """A gateway as a broker.  rack: its zone; None if it has none."""

    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class Gateways:
    """The gateways of a listener.

    version: the version of the gateway table, and the incarnations that do not answer.  nodes: all
    gateways that take new work, by node id.  leaders: node ids of the nodes that answer.  brokers:
    the nodes, and the gateways that began to drain a moment ago; until: the time, on trio's clock,
    when the first of the draining gateways is no longer a broker.  zone_of: node id -> zone id, of
    all nodes.  by_zone: zone id -> leaders, both sorted.  replicas: as by_zone, plus all gateways
    of each zone in which no gateway answers.
    """

    version: tuple[int, frozenset[int]]
    nodes: tuple[Node, ...]
    leaders: tuple[int, ...]
    zone_of: Mapping[int, str]
    by_zone: Mapping[str, list[int]]
    replicas: Mapping[str, list[int]]
    brokers: tuple[Node, ...]
    until: float
    _choices: _Choices = field(default_factory=_Choices)

    def recommended(self, topic: Topic, zone: str | None) -> list[int]:
        """Return the recommended gateway of a zone for each partition; zone None: of all zones."""
        key, count = (topic.topic_id, zone), len(topic.partition_numbers)
        chosen = self._choices.get(key)
        if chosen is None or len(chosen) != count:
            chosen = self._choices[key] = recommend(topic.topic_id, count, self._among(zone))
        return chosen

    async def recommended_in_turns(self, topic: Topic, zone: str | None, turns: Turns) -> list[int]:
        """Return the same as recommended(); other tasks run meanwhile, and the topic may grow."""
        key, count = (topic.topic_id, zone), len(topic.partition_numbers)
        known = self._choices.get(key)
        if known is not None and len(known) == count:
            return known
        chosen: list[int] = []
        for node_id in recommend_each(topic.topic_id, count, self._among(zone)):
            chosen.append(node_id)
            await turns.count(PLACED_PARTITION)
        self._choices[key] = chosen
        return chosen

    def _among(self, zone: str | None) -> Sequence[int]:
        return self.leaders if zone is None else self.replicas[zone]

    def forget_deleted(self, topic_count: int) -> None:
        """Drop all cached choices once many of them may be of deleted topics."""
        if len(self._choices) > (2 * topic_count + 100) * (len(self.replicas) + 1):
            self._choices.clear()


@dataclass(frozen=True, slots=True)
class ListenerView:
    """The cluster as the clients of a zone see it.

    zone: the zone of these clients; None if it is unknown, or none of its gateways answers.
    controller_id: the lowest node id of the leaders; -1 if there is no gateway.
    """

    gateways: Gateways
    zone: str | None
    _placed: dict[bytes, list[Placement]] = field(default_factory=dict[bytes, list[Placement]])

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The gateways of the listener that take new work, by node id."""
        return self.gateways.nodes

    @property
    def brokers(self) -> tuple[Node, ...]:
        """The nodes, and the gateways that began to drain a moment ago."""
        return self.gateways.brokers

    @property
    def leaders(self) -> tuple[int, ...]:
        """The node ids of the gateways, of all zones, that take new work and answer."""
        return self.gateways.leaders

    @property
    def controller_id(self) -> int:
        """See the class."""
        return self.leaders[0] if self.leaders else -1

    def placements(self, topic: Topic) -> list[Placement]:
        """Return the placement of each partition of a topic."""
        placed = self._placed.get(topic.topic_id)
        if placed is None or len(placed) != len(topic.partition_numbers):
            placed = self._placed[topic.topic_id] = self._place(topic)
        return placed

    async def placements_in_turns(self, topic: Topic, turns: Turns) -> list[Placement]:
        """Return the same as placements(); other tasks run meanwhile.

        If the topic grows, new partitions may be missing.
        """
        placed = self._placed.get(topic.topic_id)
        if placed is not None and len(placed) == len(topic.partition_numbers):
            return placed
        leaders, *by_zone = [
            await self.gateways.recommended_in_turns(topic, zone, turns)
            for zone in (self.zone, *self.gateways.replicas)
        ]
        placed = list[Placement]()
        for each in self._placements(topic, leaders, by_zone):
            placed.append(each)
            await turns.count()
        self._placed[topic.topic_id] = placed
        return placed

    def _place(self, topic: Topic) -> list[Placement]:
        leaders, *by_zone = [
            self.gateways.recommended(topic, zone) for zone in (self.zone, *self.gateways.replicas)
        ]
        return list(self._placements(topic, leaders, by_zone))

    def _placements(
        self, topic: Topic, leaders: list[int], by_zone: list[list[int]]
    ) -> Iterator[Placement]:
        """Yield the placements; partitions with the same gateways share one, so there are few.

        If the topic has grown while its zones were computed, new partitions are left out.
        """
        gateways = self.gateways
        to_produce = gateways.by_zone[self.zone] if self.zone is not None else []

        @cache
        def placed(leader: int, *of_zones: int) -> Placement:
            return place(
                leader,
                dict(zip(gateways.replicas, of_zones, strict=True)),
                gateways.zone_of,
                topic.replication_factor,
                to_produce=to_produce,
            )

        return map(placed, leaders, *by_zone)

    def forget_deleted(self, topic_count: int) -> None:
        """Drop all cached placements once many of them may be of deleted topics."""
        if len(self._placed) > 2 * topic_count + 100:
            self._placed.clear()
        self.gateways.forget_deleted(topic_count)


class ClusterView:
    """Makes and caches views; of() costs two dictionary lookups unless gateways change.

    absent: returns the incarnations that do not answer.  without_gateway: how many answers went to
    clients whose zone has no gateway.  farewell_seconds: how long a draining gateway stays a broker
    after this gateway has noticed that it drains.
    """

    def __init__(
        self,
        state: ClusterState,
        zones: ZoneFinder,
        absent: Callable[[], frozenset[int]] = frozenset,
        *,
        farewell_seconds: float = 0.0,
    ) -> None:
        self.zones = zones
        self.without_gateway = 0
        self._state = state
        self._absent = absent
        self._farewell_seconds = farewell_seconds
        self._brokers_until: dict[int, float] = {}  # of draining gateways, by incarnation
        self._looked_at = -1  # the last seen version of the gateway table
        self._gateways: dict[str, Gateways] = {}
        self._views: dict[tuple[str, str | None], ListenerView] = {}

    def of_client(self, call: Call) -> ListenerView:
        """Return the present view of the client of a call."""
        zone = self.zones.of(call.peer, call.client_id).zone
        view = self.of(call.peer.listener, zone)
        if zone and view.zone is None:
            self.without_gateway += 1
        return view

    def of(self, listener: str, zone: str = "") -> ListenerView:
        """Return the present view of the clients of a listener and zone; "": zone unknown."""
        gateways = self._gateways.get(listener)
        if gateways is None or not self._is_present(gateways):
            gateways = self._gateways[listener] = self._make(listener)
            self._views = {key: view for key, view in self._views.items() if key[0] != listener}
        served = zone if zone in gateways.by_zone else None
        view = self._views.get((listener, served))
        if view is None:
            view = self._views[listener, served] = ListenerView(gateways, served)
        view.forget_deleted(len(self._state.topics.by_id))
        return view

    def _is_present(self, gateways: Gateways) -> bool:
        if gateways.version != (self._state.gateways.version, self._absent()):
            return False
        return gateways.until == inf or trio.current_time() < gateways.until

    def look(self, _touched: set[int]) -> None:
        """Note which gateways drain; called after each change of gateways."""
        table = self._state.gateways
        if table.version != self._looked_at:
            self._looked_at = table.version
            ends, known = trio.current_time() + self._farewell_seconds, self._brokers_until
            draining = [each.incarnation for each in table.brokers() if each.draining]
            self._brokers_until = {each: known.get(each, ends) for each in draining}

    def _make(self, listener: str) -> Gateways:
        table, absent = self._state.gateways, self._absent()
        serving = table.serving()
        shown = [each for each in serving if each.endpoint(listener) is not None]
        shown = shown or table.brokers()
        nodes = _nodes(shown, listener)
        away = {each.node_id for each in table.brokers() if each.incarnation in absent}
        leaders = tuple(each.node_id for each in nodes if each.node_id not in away)
        leaders = leaders or tuple(each.node_id for each in nodes)
        zone_of = {each.node_id: self.zones.maps.id_of(each.rack or "") for each in nodes}
        by_zone = _by_zone(leaders, zone_of)
        replicas = _by_zone(zone_of, zone_of) | by_zone
        now = trio.current_time() if self._brokers_until else 0.0
        leaving = {each: until for each, until in self._brokers_until.items() if now < until}
        known = {each.incarnation for each in shown} | leaving.keys()
        brokers = _nodes((each for each in table.brokers() if each.incarnation in known), listener)
        return Gateways(
            version=(table.version, absent),
            nodes=tuple(nodes),
            leaders=leaders,
            zone_of=zone_of,
            by_zone=by_zone,
            replicas=replicas,
            brokers=tuple(brokers),
            until=min(leaving.values(), default=inf),
        )


def _by_zone(node_ids: Iterable[int], zone_of: Mapping[int, str]) -> dict[str, list[int]]:
    """Return node ids by zone, both sorted."""
    by_zone: defaultdict[str, list[int]] = defaultdict(list)
    for node_id in sorted(node_ids):
        by_zone[zone_of[node_id]].append(node_id)
    return dict(sorted(by_zone.items()))


def _nodes(gateways: Iterable[Gateway], listener: str) -> list[Node]:
    nodes: list[Node] = []
    for gateway in gateways:
        endpoint = gateway.endpoint(listener)
        if endpoint is not None:
            rack = gateway.zone or None
            nodes.append(Node(gateway.node_id, endpoint.host, endpoint.port, rack))
    return nodes
