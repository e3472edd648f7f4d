"""The metrics of the thread pools that clients share fairly (work/fair_pool.py)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..work.pools import Pools

_LABELS = ["pool"]


def pool_metrics(pools: Pools) -> Iterator[Metric]:
    """Yield the values of the pools, by name."""
    waiting = GaugeMetricFamily(
        "tidegate_pool_waiting", "Jobs that wait for a thread", labels=_LABELS
    )
    held = GaugeMetricFamily(
        "tidegate_pool_waiting_bytes", "What the jobs that wait hold", labels=_LABELS
    )
    jobs = CounterMetricFamily("tidegate_pool_jobs", "Jobs that threads began", labels=_LABELS)
    refused = CounterMetricFamily(
        "tidegate_pool_refused", "Jobs for which there was no room, time or thread", labels=_LABELS
    )
    seconds = CounterMetricFamily(
        "tidegate_pool_cpu_seconds", "Processor time of the jobs that ended", labels=_LABELS
    )
    for name, pool in (("records", pools.records), ("telemetry", pools.telemetry)):
        waiting.add_metric([name], pool.waiting)
        held.add_metric([name], pool.waiting_bytes)
        jobs.add_metric([name], pool.counters.jobs)
        refused.add_metric([name], pool.counters.refused)
        seconds.add_metric([name], pool.counters.seconds)
    yield waiting
    yield held
    yield jobs
    yield refused
    yield seconds
