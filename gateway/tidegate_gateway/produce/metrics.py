"""The metrics of WAL objects, and of the buffers that receive their batches."""

from __future__ import annotations

from collections.abc import Iterator

import trio
from prometheus_client.metrics_core import Metric

from tidegate_runtime.prometheus import counter, gauge

from ..network.arenas import ArenaPool
from .wal_counters import WalCounters
from .wal_writer import WalWriter


def write_metrics(writer: WalWriter, pool: ArenaPool) -> Iterator[Metric]:
    """Yield the metrics of WAL objects.  pool: the receive buffers."""
    counters = writer.counters
    yield counter("tidegate_wal_objects", "WAL objects stored", counters.objects)
    yield counter("tidegate_wal_bytes", "Bytes of WAL objects stored", counters.bytes)
    yield counter("tidegate_wal_batches", "Batches of WAL objects stored", counters.batches)
    yield counter("tidegate_wal_abandoned", "WAL objects abandoned", counters.abandoned)
    yield counter(
        "tidegate_wal_left_batches",
        "Batches that were not written, as their clients had left, or send an earlier one again",
        counters.left_batches,
    )
    yield counter("tidegate_wal_put_retries", "PUTs that were repeated", counters.put_retries)
    yield counter("tidegate_wal_put_seconds", "Seconds PUTs took, in all", counters.put_seconds)
    yield from _ages(counters)
    yield gauge(
        "tidegate_receive_large_bytes",
        "Large receive buffers in use",
        pool.large_bytes,
    )
    yield gauge(
        "tidegate_receive_control_bytes",
        "Receive buffers of large requests that are not Produce",
        pool.control_bytes,
    )


def _ages(counters: WalCounters) -> Iterator[Metric]:
    """Yield metrics that show whether writes succeed, which /readyz does not show."""
    for name, help_text, at in (
        (
            "tidegate_wal_put_age_seconds",
            "Seconds since a WAL object was last stored",
            counters.stored_at,
        ),
        (
            "tidegate_wal_commit_age_seconds",
            "Seconds since a WAL object was last committed to the metadata log",
            counters.committed_at,
        ),
    ):
        if at is not None:
            yield gauge(name, help_text, trio.current_time() - at)
