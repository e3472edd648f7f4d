"""The metrics of doors: the listeners of clients, of other gateways and of operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidegate_runtime.doors.slots import ConnectionSlots

_LABELS = ["door"]


def door_metrics(doors: Mapping[str, ConnectionSlots]) -> Iterator[Metric]:
    """Yield the values of all doors, by name."""
    strangers = GaugeMetricFamily(
        "tidegate_strangers", "Connections whose clients are not authenticated yet", labels=_LABELS
    )
    closed = CounterMetricFamily(
        "tidegate_strangers_closed",
        "Connections that were closed unauthenticated, since others came",
        labels=_LABELS,
    )
    for name, slots in doors.items():
        strangers.add_metric([name], slots.strangers)
        closed.add_metric([name], slots.closed)
    yield strangers
    yield closed
