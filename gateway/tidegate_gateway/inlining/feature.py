"""Small writes as a feature of the gateway: the task that moves them, and what operators see."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from prometheus_client.metrics_core import Metric

from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.prometheus import counter, gauge

from ..feature import Feature, Task
from ..produce.wal_counters import WalCounters
from .mover import InlineMover


def small_writes(state: ClusterState, mover: InlineMover, counters: WalCounters) -> Feature:
    """Return the feature.  counters: of the writer of WAL objects."""
    # Without the lane, too: the objects of gateways with a lane may need another mover.
    tasks = (Task("move small writes to the store", mover.run),)
    metrics = partial(_metrics, mover, counters)
    return Feature("small writes", tasks=tasks, metrics=metrics, facts=partial(_facts, state))


def _metrics(mover: InlineMover, counters: WalCounters) -> Iterator[Metric]:
    yield counter(
        "tidegate_inlined_objects",
        "WAL objects that went into the metadata log instead of the object store",
        counters.inlined_objects,
    )
    yield counter(
        "tidegate_inlined_bytes",
        "Bytes of WAL objects that went into the metadata log",
        counters.inlined_bytes,
    )
    yield counter(
        "tidegate_inlined_moved_bytes",
        "Bytes of stored objects that took over batches from the metadata log",
        mover.moved_bytes,
    )


def _facts(state: ClusterState) -> Iterator[Metric]:
    yield gauge(
        "tidegate_inlined_unmoved_bytes",
        "Bytes of WAL objects in the metadata log that the object store does not have yet",
        state.objects.inlined.size_bytes,
    )
