"""The metrics of client quotas, under the names that jmx_exporter gives Kafka's.

Each quota has series for the clients that used it last.  These are at most MAX_QUOTA_SERIES, since
clients choose their client ids freely.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from tidegate_runtime.prometheus import counter

from .client_quotas import ClientQuotas
from .connection_rates import ConnectionRates
from .sharing.exchange import ShareExchange

MAX_QUOTA_SERIES: Final = 200
_LABELS: Final = ("resource", "user", "clientId")


def quota_metrics(
    quotas: ClientQuotas, exchange: ShareExchange | None, rates: ConnectionRates
) -> Iterator[Metric]:
    """Yield the values of all quotas.  exchange: None for a gateway that asks for no shares."""
    now_ms = int(trio.current_time() * 1_000)
    throttled = _family("throttle_time", "Mean throttle time of the last minute, in ms")
    bytes_rate = _family("byte_rate", "Bytes a second")
    times = _family("request_time", "Percent of the time of one thread")
    mutation_rate = _family("mutation_rate", "Partitions created or deleted in a second")
    shares = GaugeMetricFamily(
        "tidegate_quota_share", "This gateway's share of a quota, in a second", labels=_LABELS
    )
    for resource, buckets, family in (
        ("Produce", quotas.produced, bytes_rate),
        ("Fetch", quotas.fetched, bytes_rate),
        ("Request", quotas.request_time, times),
        ("ControllerMutation", quotas.mutations, mutation_rate),
    ):
        for (user, client_id), usage in buckets.recent(MAX_QUOTA_SERIES, now_ms):
            labels = [resource, user, client_id]
            family.add_metric(labels, usage.rate.per_second(now_ms))
            throttled.add_metric(labels, usage.throttled.mean(now_ms))
            if (share := usage.share(now_ms)) is not None:
                shares.add_metric(labels, share)
    yield from (throttled, bytes_rate, times, mutation_rate, shares)
    yield from _exchanged(exchange)
    yield counter(
        "tidegate_connections_held",
        "Connections that were held and closed: their address opened them too fast",
        rates.held,
    )
    yield counter(
        "tidegate_accept_wait_seconds",
        "Seconds in which accepting paused for max.connection.creation.rate",
        rates.waited_seconds,
    )


def _exchanged(exchange: ShareExchange | None) -> Iterator[Metric]:
    yield counter(
        "tidegate_quota_share_questions",
        "Questions to other gateways about shares of quotas",
        exchange.asked if exchange is not None else 0,
    )
    yield counter(
        "tidegate_quota_share_questions_unanswered",
        "Those that got no usable answer in time",
        exchange.unanswered if exchange is not None else 0,
    )


def _family(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kafka_server_quota_{name}", help_text, labels=_LABELS)
