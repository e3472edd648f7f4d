"""The pipeline's backlog, computed from the cluster state.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tidegate_coordination.events.cluster import RUN_SEGMENT
from tidegate_coordination.state.cluster import ClusterState

from ..driver import CLAIM


@dataclass(frozen=True, slots=True)
class DriverSeen:
    """A registered driver.  silent_ms: time since its last entry, by the given clock."""

    incarnation: int
    software_version: str
    silent_ms: int
    holds_claim: bool


@dataclass(frozen=True, slots=True)
class ReportSeen:
    """A driver's own report of its work.  age_ms: the report's age, by the given clock."""

    incarnation: int
    age_ms: int
    merges: int
    compactions: int
    parents: int
    size_bytes: int
    records: int
    removed: int
    failed: int
    last_error: str
    dropped: dict[str, int]


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The backlog.  Runs are stretches of WAL objects that are in no segment yet.

    oldest_ms: age of the oldest run, None if there is none.  reports: the last ones, newest last.
    """

    cluster_id: str
    runs: int
    run_bytes: int
    oldest_ms: int | None
    segments: int
    segment_bytes: int
    drivers: tuple[DriverSeen, ...]
    reports: tuple[ReportSeen, ...]


def pipeline_status(state: ClusterState, now_ms: int) -> PipelineStatus:
    """Compute the backlog from the whole state."""
    runs = run_bytes = segments = segment_bytes = 0
    oldest_at_ms: int | None = None
    for partition in state.partitions.values():
        for at in range(len(partition.runs)):
            row = partition.runs[at]
            if row.flags & RUN_SEGMENT:
                segments += 1
                segment_bytes += row.length
                continue
            runs += 1
            run_bytes += row.length
            committed_ms = state.committed_at_ms(row)
            oldest_at_ms = committed_ms if oldest_at_ms is None else min(oldest_at_ms, committed_ms)
    return PipelineStatus(
        state.cluster_id,
        runs,
        run_bytes,
        None if oldest_at_ms is None else max(0, now_ms - oldest_at_ms),
        segments,
        segment_bytes,
        _drivers(state, now_ms),
        tuple(
            ReportSeen(incarnation, max(0, now_ms - at_ms), *msgspec.structs.astuple(report))
            for incarnation, at_ms, report in state.pipeline_reports.rows
        ),
    )


def _drivers(state: ClusterState, now_ms: int) -> tuple[DriverSeen, ...]:
    claim = state.claims.get(CLAIM)
    holder = claim.incarnation if claim is not None else 0
    return tuple(
        DriverSeen(
            each.incarnation,
            each.software_version,
            max(0, now_ms - each.clock_ms),
            each.incarnation == holder,
        )
        for each in state.gateways.live.values()
        if not each.is_broker and each.instance_key.startswith(CLAIM)
    )
