"""The metrics of listeners with TLS; a gateway without them has no values."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from .tls_listeners import TlsListeners

_LABELS = ["listener"]


def tls_metrics(tls: TlsListeners) -> Iterator[Metric]:
    """Yield the values of all listeners with TLS."""
    expiry = GaugeMetricFamily(
        "tidegate_tls_expiry_seconds",
        "Seconds until a certificate of a listener expires; negative after that",
        labels=_LABELS,
    )
    handshakes = CounterMetricFamily(
        "tidegate_tls_failed_handshakes", "TLS handshakes that failed", labels=_LABELS
    )
    reloads = CounterMetricFamily(
        "tidegate_tls_failed_reloads",
        "Looks at new certificates that could not be used",
        labels=_LABELS,
    )
    for each in tls:
        expiry.add_metric([each.name], tls.seconds_left(each))
        handshakes.add_metric([each.name], each.failed_handshakes)
        reloads.add_metric([each.name], each.failed_reloads)
    yield expiry
    yield handshakes
    yield reloads
