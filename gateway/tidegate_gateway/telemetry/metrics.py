"""The metrics that clients push (KIP-714), and figures about the pushes.

The names begin with tidegate_client_, so that no client can use the name of another series; see
client_values.py for the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import trio
from prometheus_client.metrics_core import CounterMetricFamily

from tidegate_runtime.prometheus import BREAK, Break, Family, Series, gauge, label, line

from .client_values import Client
from .telemetry import Telemetry

_RESULTS = ("shown", "other", "beyond", "unsubscribed", "ignored")


def client_metrics(telemetry: Telemetry) -> Iterator[Family | Break]:
    """Yield the values of all clients."""
    telemetry.values.forget_silent(trio.current_time() * 1_000)
    yield gauge(
        "tidegate_telemetry_instances",
        "Client instances that asked which metrics to push, or pushed",
        len(telemetry.instances),
    )
    yield gauge(
        "tidegate_telemetry_clients",
        "Clients whose metrics are shown, by client id and software",
        len(telemetry.values),
    )
    points = CounterMetricFamily(
        "tidegate_telemetry_points",
        "Values that clients pushed, by what became of them",
        labels=["result"],
    )
    for result in _RESULTS:
        points.add_metric([result], telemetry.values.points[result])
    yield points
    yield BREAK
    yield from _series("gauge", telemetry.values.gauges())
    yield from _series("counter", telemetry.values.counters())


def _series(kind: str, values: Iterable[tuple[str, Client, float]]) -> Iterator[Family | Break]:
    by_name: dict[str, list[tuple[Client, float]]] = {}
    for name, client, value in values:
        by_name.setdefault(name, []).append((client, value))
    yield BREAK
    for name, found in sorted(by_name.items()):
        yield Series(name, "Pushed by clients", kind, _lines(name, found))


def _lines(name: str, values: Iterable[tuple[Client, float]]) -> Iterator[str]:
    """Yield the lines one by one as the page is written; there may be thousands."""
    for client, value in values:
        yield line(name, _labels(client), value)


def _labels(client: Client) -> str:
    pairs = (("client_id", client.client_id), ("client_software_name", client.software))
    return ",".join(label(*each) for each in pairs)
