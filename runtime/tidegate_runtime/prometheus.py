"""Metrics as Prometheus text, made in a thread from values that were read before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_PROCESS = ProcessCollector(registry=None)


async def render(metrics: Iterable[Metric]) -> bytes:
    """Return metrics, and those of the process, as text; only the text is made in a thread."""
    return await trio.to_thread.run_sync(_text, list(metrics))


def _text(metrics: list[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot([*metrics, *_PROCESS.collect()]))
    return generate_latest(registry)


class _Snapshot:
    """Metrics whose values were read before."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
