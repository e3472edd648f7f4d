"""The metrics of logins by SASL."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from .gates import SaslGates


def login_metrics(gates: SaslGates) -> Iterator[Metric]:
    """Yield the counts of logins, by listener."""
    tally = gates.tally
    for name, text, counts in (
        ("successful_authentication", "Authentications, also repeated ones", tally.succeeded),
        ("failed_authentication", "Failed authentications", tally.failed),
        ("expired_connections_killed", "Connections closed after their session", tally.expired),
    ):
        name = f"kafka_server_socket_server_metrics_{name}"
        family = CounterMetricFamily(name, text, labels=["listener"])
        for listener in gates.listeners:
            family.add_metric([listener], counts[listener])
        yield family
