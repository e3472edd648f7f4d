"""The cluster as the clients of one listener see it, prepared until it changes.

A gateway that does not advertise the client's listener is not shown and leads nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic

from .placement import Placement, place


@dataclass(frozen=True, slots=True)
class Node:
    """A gateway as a broker.  rack: its zone, None without one."""

    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class ListenerView:
    """nodes: by node id.  leaders: sorted node ids of those that take new work.

    controller_id: the lowest node id; -1 where there is no gateway.
    """

    gateways_version: int
    nodes: tuple[Node, ...]
    leaders: tuple[int, ...]
    _placed: dict[bytes, list[Placement]] = field(default_factory=dict[bytes, list[Placement]])

    @property
    def controller_id(self) -> int:
        """See the class."""
        return self.nodes[0].node_id if self.nodes else -1

    def placements(self, topic: Topic) -> list[Placement]:
        """Return where each partition of a topic is."""
        placed = self._placed.setdefault(topic.topic_id, [])
        for index in range(len(placed), len(topic.partition_numbers)):
            placed.append(place((topic.topic_id, index), self.leaders, topic.replication_factor))
        return placed

    def forget_deleted(self, state: ClusterState) -> None:
        """Drop what is kept of deleted topics once it is much."""
        if len(self._placed) > 2 * len(state.topics.by_id) + 100:
            self._placed.clear()


class ClusterView:
    """of(listener) costs a dictionary look-up while no gateway comes or goes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._views: dict[str, ListenerView] = {}

    def of(self, listener: str) -> ListenerView:
        """Return what the clients of a listener see now."""
        view = self._views.get(listener)
        if view is None or view.gateways_version != self._state.gateways.version:
            view = self._views[listener] = self._make(listener)
        view.forget_deleted(self._state)
        return view

    def _make(self, listener: str) -> ListenerView:
        gateways = self._state.gateways
        nodes: list[Node] = []
        for gateway in gateways.brokers():
            endpoint = gateway.endpoint(listener)
            if endpoint is not None:
                rack = gateway.zone or None
                nodes.append(Node(gateway.node_id, endpoint.host, endpoint.port, rack))
        shown = {each.node_id for each in nodes}
        serving = (each.node_id for each in gateways.serving())
        leaders = tuple(node_id for node_id in serving if node_id in shown)
        return ListenerView(gateways.version, tuple(nodes), leaders or tuple(sorted(shown)))
