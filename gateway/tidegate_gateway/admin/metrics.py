"""The metrics of a gateway as Prometheus text, made for each request of the page.

The hot path only increments counters.  Metrics that Kafka also has have the names that jmx_exporter
and Strimzi's dashboards use.  The names of other metrics begin with tidegate_.  The number of
series has a limit.  Values beyond the limit are summed in one series, or only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import trio
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidegate_runtime.output_metrics import output_metrics
from tidegate_runtime.prometheus import Break, Family, Series, gauge, label, line, render

from ..environment import Identity
from ..gateway import Gateway
from ..gateway_counters import GatewayCounters
from ..network.connection import Connection
from ..requests.cluster.metrics import is_controller
from .door_metrics import door_metrics
from .pool_metrics import pool_metrics
from .request_metrics import load_metrics, request_metrics, slow_metric, time_metrics
from .topic_metrics import topic_metrics

# Clients choose the names of their software freely, so the number of series needs a limit.
MAX_SOFTWARE_SERIES: Final = 100


async def render_metrics(gateway: Gateway) -> bytes:
    """Return the text of all metrics."""
    return await render(gateway_metrics(gateway))


async def render_cluster(gateway: Gateway) -> bytes:
    """Return the text of the cluster's metrics, which are the same at every gateway."""
    return await render(facts_of_cluster(gateway), of_process=False)


def gateway_metrics(gateway: Gateway) -> Iterator[Family | Break]:
    """Yield all values of a gateway; a Series reads its values when its lines are made."""
    now = trio.current_time()
    yield _info(gateway.identity)
    yield from _standing(
        is_ready=True,
        is_draining=gateway.is_draining,
        is_cut_off=gateway.is_cut_off,
        is_store_cut_off=gateway.reads.store_way.is_cut_off,
    )
    yield from request_metrics(gateway.counters)
    yield slow_metric(gateway.counters.slow)
    yield from time_metrics(gateway, now)
    yield from load_metrics(gateway)
    yield from topic_metrics(gateway, now)
    yield _connections(gateway.identity, gateway.connections)
    yield _software(gateway.connections)
    yield from door_metrics(gateway.doors)
    yield from pool_metrics(gateway.pools)
    yield _upkeep(gateway)
    for feature in gateway.features:
        yield from feature.metrics()
    yield from output_metrics()
    if is_controller(gateway.coordinator):
        yield from facts_of_cluster(gateway)


def facts_of_cluster(gateway: Gateway) -> Iterator[Family | Break]:
    """Yield metrics of partitions and groups.  /metrics has them only at the controller."""
    for feature in gateway.features:
        yield from feature.facts()


def starting_metrics(identity: Identity) -> Iterator[Metric]:
    """Yield the values of a gateway that has not started: it has served nothing."""
    yield _info(identity)
    yield from _standing(
        is_ready=False, is_draining=False, is_cut_off=False, is_store_cut_off=False
    )
    yield from request_metrics(GatewayCounters())
    yield _connections(identity, ())
    yield from output_metrics()


def _info(me: Identity) -> Metric:
    info = GaugeMetricFamily("kafka_server_app_info", "1", labels=["version", "node_id", "zone"])
    info.add_metric([me.software_version, str(me.node_id), me.zone], 1)
    return info


def _standing(
    *, is_ready: bool, is_draining: bool, is_cut_off: bool, is_store_cut_off: bool
) -> Iterator[Metric]:
    yield gauge("tidegate_ready", "1 once clients are served", is_ready)
    yield gauge("tidegate_draining", "1 while the gateway stops or drains", is_draining)
    yield gauge("tidegate_cut_off", "1 while cut off from the metadata log", is_cut_off)
    yield gauge(
        "tidegate_store_cut_off",
        "1 while cut off from the object store, which others reach",
        is_store_cut_off,
    )


def _connections(me: Identity, connections: Collection[Connection]) -> Metric:
    counts = Counter(each.peer.listener for each in connections)
    family = GaugeMetricFamily(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections",
        labels=["listener"],
    )
    for endpoint in me.endpoints:
        family.add_metric([endpoint.listener], counts[endpoint.listener])
    return family


def _software(connections: Iterable[Connection]) -> Series:
    """Return the clients' software, as clients name it; software with few connections is _other."""
    counts = Counter((each.peer.listener, *each.peer.software) for each in connections)
    name = "kafka_server_socket_server_metrics_connections_software"
    lines: list[str] = []
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MAX_SOFTWARE_SERIES]
    for (listener, software, version), count in most:
        lines.append(line(name, _software_labels(listener, software, version), count))
        del counts[listener, software, version]
    if counts:
        lines.append(line(name, _software_labels("_other", "_other", "_other"), counts.total()))
    return Series(name, "Open connections, by their clients' software", "gauge", lines)


def _software_labels(listener: str, software: str, version: str) -> str:
    texts = [each or "unknown" for each in (software, version)]
    names = ("clientSoftwareName", "clientSoftwareVersion")
    return ",".join([*map(label, names, texts), label("listener", listener)])


def _upkeep(gateway: Gateway) -> Metric:
    family = CounterMetricFamily(
        "tidegate_upkeep_failures",
        "Background steps that failed and are repeated",
        labels=["step"],
    )
    for step, count in sorted(gateway.upkeep.failures.items()):
        family.add_metric([step], count)
    return family
