"""metadata: the size of a cluster's metadata over hours of virtual time, with the pipeline on.

Every row is a stretch of the time.  Every figure is the median and the range of its samples, one a
virtual minute.  If the rows do not rise, the metadata stays flat.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import Final

from ..brokers.virtual_cluster import Load, VirtualCluster, live_rows
from ..errors import BenchError
from ..lab import Lab, rows_of
from ..measure import proc
from ..measure.figures import Observation
from ..measure.table import Report, Row

SEED: Final = 1
ROWS: Final = 24
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
NOTE: Final = (
    "every row holds the samples of its stretch of time; RSS: of the process that folds, Python and"
    " all; log: entries that are kept, of which the last snapshot covers some; cpu s: of a virtual"
    " minute, for all gateways' and the pipeline's decisions and one replica"
)


def run(lab: Lab) -> Report:
    """Fold for the requested time."""
    load, minutes = _asked(lab)
    cluster = VirtualCluster(load, Random(SEED))
    cluster.begin()
    rows: list[Row] = []
    stretch = max(1, -(-minutes // ROWS))
    for first in range(0, minutes, stretch):
        last = min(first + stretch, minutes)
        seen = [_minute(cluster) for _ in range(first, last)]
        rows += rows_of(f"to {last / 60:.2f} h", ["in process"], [seen])
        lab.say(f"metadata: {last} of {minutes} virtual minutes: {_told(seen[-1])}")
    return Report("metadata", rows, (_shape(load), NOTE))


def _asked(lab: Lab) -> tuple[Load, int]:
    options = lab.options
    minutes = round(options.hours * 60)
    if options.quick:
        return Load(200, 3, 10, retention_ms=8 * MINUTE_MS), 20
    if minutes < 1 or options.slices > options.partitions:
        raise BenchError("--hours: a minute at least; --slices: not more than --partitions")
    retention_ms = int(options.retention_hours * HOUR_MS)
    return Load(options.partitions, options.gateways, options.slices, retention_ms), minutes


def _shape(load: Load) -> str:
    return (
        f"{load.partitions:,} partitions, {load.gateways} gateways, 4 flushes a second each, of"
        f" {load.slices} slices drawn from all partitions; retention"
        f" {load.retention_ms / HOUR_MS:g} h"
    )


def _told(seen: Observation) -> str:
    """Return the whole sample as text, since a run of hours may be stopped before its table."""
    figures = {"RSS MB": (seen.rss_bytes or 0) / 1e6} | dict(seen.more)
    return ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())


def _minute(cluster: VirtualCluster) -> Observation:
    merges, written = cluster.done.merges, cluster.log.written_bytes
    begun = time.process_time()
    cluster.run(MINUTE_MS)
    seconds = time.process_time() - begun
    state, log = cluster.state, cluster.log
    runs, segments = live_rows(state)
    return Observation(
        rss_bytes=proc.rss_bytes(os.getpid()),
        more={
            "snapshot MB": log.snapshot_bytes / 1e6,
            "log MB": log.size_bytes / 1e6,
            "log entries": float(len(log.kept)),
            "live runs": float(runs),
            "segments": float(segments),
            "objects": float(len(state.objects)),
            "dead objects": float(len(state.objects.dead)),
            "merges/min": float(cluster.done.merges - merges),
            "log MB/min": (log.written_bytes - written) / 1e6,
            "cpu s": seconds,
        },
    )
