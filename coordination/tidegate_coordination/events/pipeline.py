"""Events of pipeline drivers."""

from __future__ import annotations

import msgspec

from .cluster import Event


class PipelineReport(msgspec.Struct, array_like=True, frozen=True):
    """A driver's work since its last report.

    merges, compactions: units published.  parents: of these units. size_bytes, records: of the
      written segments.  removed: records that compaction left out.  failed: units with an error;
      last_error: of the last one.  dropped: finished units that were not published, by reason.
    """

    merges: int
    compactions: int
    parents: int
    size_bytes: int
    records: int
    removed: int
    failed: int
    last_error: str
    dropped: dict[str, int]


class PipelineReported(Event, frozen=True, tag=29):
    """A pipeline driver's report of its work."""

    incarnation: int
    report: PipelineReport
