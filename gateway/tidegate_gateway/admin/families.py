"""Metrics of one sample."""

from __future__ import annotations

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric


def gauge(name: str, help_text: str, value: float) -> Metric:
    """Return a value that rises and falls."""
    return GaugeMetricFamily(name, help_text, value=value)


def counter(name: str, help_text: str, value: float) -> Metric:
    """Return a count since the gateway's start; its name gets _total."""
    return CounterMetricFamily(name, help_text, value=value)
