"""The parts that show the cluster to clients, with a separate view for each zone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidegate_coordination.state.changes import GATEWAYS
from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.http.pages import Answer, json_answer
from tidegate_runtime.prometheus import Break, Family

from ..cost.ledger import CostLedger
from ..feature import Feature, Ground, Task
from ..network.call import Peer
from ..peers.neighbours import Neighbours
from ..zones.cluster_view import ClusterView
from ..zones.metrics import zone_metrics
from ..zones.read_steering import ReadSteering
from ..zones.zone_finder import ZoneFinder
from ..zones.zone_report import zone_report
from ..zones.zone_settings import ZoneMaps, proxied_listeners
from ..zones.zone_traffic import ZoneTraffic


@dataclass(frozen=True, slots=True)
class ViewParts:
    """neighbours: None for a gateway that probes no other gateways.  peers: of open connections."""

    state: ClusterState
    peers: Callable[[], Iterable[Peer]]
    zones: ZoneFinder
    neighbours: Neighbours | None
    cluster_view: ClusterView
    steering: ReadSteering
    traffic: ZoneTraffic

    @property
    def unheard(self) -> frozenset[int]:
        """Return the incarnations that do not answer this gateway."""
        return self.neighbours.absent if self.neighbours is not None else frozenset()

    def book(self) -> None:
        """Book the bytes of open connections."""
        self.traffic.book_all(self.peers())

    def report(self) -> dict[str, object]:
        """Return the report about zones, as builtins."""
        self.book()
        return zone_report(
            self.traffic,
            {self.zones.maps.id_of(each.zone) for each in self.state.gateways.serving()},
            moved=self.steering.moved,
            without_gateway=self.cluster_view.without_gateway,
        )

    def metrics(self) -> Iterable[Family | Break]:
        """Yield the metrics of zones."""
        self.book()
        yield from zone_metrics(self.traffic, self.steering, self.cluster_view)

    async def page(self) -> Answer:
        """Return the page of zones."""
        return json_answer(self.report())

    @property
    def feature(self) -> Feature:
        """Return the background tasks, the metrics and the page of these parts."""
        tasks: tuple[Task, ...] = ()
        if self.neighbours is not None:
            tasks = (Task("look whether gateways answer", self.neighbours.run),)
        pages = {"/v1/zones": self.page}
        return Feature("zones", tasks=tasks, metrics=self.metrics, pages=pages)


def view_parts(
    ground: Ground,
    zone_maps: ZoneMaps,
    ledger: CostLedger,
    absent: Callable[[], frozenset[int]],
    peers: Callable[[], Iterable[Peer]],
) -> ViewParts:
    """Make the parts.  absent: the incarnations to which no client is sent."""
    state, identity = ground.coordinator.state, ground.identity
    zones = ZoneFinder(zone_maps, state.gateways)
    view = ClusterView(
        state,
        zones,
        absent,
        farewell_seconds=ground.settings.int("drain.grace.ms") / 1000,
    )
    ground.coordinator.listen(view.look, GATEWAYS)
    steering = ReadSteering(view, identity.node_id, identity.zone)
    traffic = ZoneTraffic(zones, identity.zone, ledger.crossed)
    return ViewParts(state, peers, zones, _neighbours(ground), view, steering, traffic)


def _neighbours(ground: Ground) -> Neighbours | None:
    dial, coordinator = ground.environment.dial, ground.coordinator
    if dial is None:
        return None
    # A probe sends no PROXY header, so a listener behind a proxy would refuse it.
    proxied = proxied_listeners(ground.settings)
    names = (each.listener for each in ground.identity.endpoints)
    asked = [each for each in names if each not in proxied]
    return Neighbours(coordinator.state.gateways, coordinator.incarnation, asked, dial)
