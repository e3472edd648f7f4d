"""The metrics of zones."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from tidegate_runtime.prometheus import counter

from .cluster_view import ClusterView
from .read_steering import ReadSteering
from .zone_traffic import ZoneTraffic


def zone_metrics(
    traffic: ZoneTraffic, steering: ReadSteering, view: ClusterView
) -> Iterator[Metric]:
    """Yield the bytes within and across zones, and the counts of steered clients."""
    family = CounterMetricFamily(
        "tidegate_zone_bytes",
        "Bytes of batches; zone: whether their client is in this gateway's zone",
        labels=["direction", "zone"],
    )
    counts = {"produced": traffic.totals.produced, "fetched": traffic.totals.fetched}
    for direction, by_kind in counts.items():
        for kind, size_bytes in by_kind.items():
            family.add_metric([direction, kind.value], size_bytes)
    yield family
    yield counter(
        "tidegate_zone_moved_fetches",
        "Partitions whose consumers were sent to their own zone",
        steering.moved,
    )
    yield counter(
        "tidegate_zone_without_gateway",
        "Answers to clients of zones that have no gateway",
        view.without_gateway,
    )
