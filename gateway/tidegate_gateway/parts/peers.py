"""The help that gateways give each other."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_runtime.prometheus import Break, Family

from ..feature import Feature
from ..fetch.lending.zone_reads import ZoneReads
from ..peers.metrics import forwarding_metrics, peer_read_metrics
from ..peers.peer_service import PeerService


def peers_feature(
    coordinator: Coordinator, service: PeerService, zone_reads: ZoneReads | None
) -> Feature:
    """Return the feature.  zone_reads: None if gateways do not read for each other."""

    def metrics() -> Iterable[Family | Break]:
        yield from forwarding_metrics(coordinator.route, service)
        yield from peer_read_metrics(zone_reads, service)

    return Feature("peers", metrics=metrics)
