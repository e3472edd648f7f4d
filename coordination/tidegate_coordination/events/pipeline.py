"""Events of pipeline drivers."""

from __future__ import annotations

import msgspec

from .cluster import Event


class PipelineReport(msgspec.Struct, array_like=True, frozen=True):
    """A driver's work since its last report.

    merges, compactions: numbers of published units.
    parents, size_bytes: the number of runs and segments that these units read, and the bytes of
      their batches.
    records: the number of records in the written segments.
    removed: the number of records that compaction removed.
    failed: the number of units with an error.  last_error: the error of the last failed unit.
    dropped: the number of finished units that were not published, by reason.
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
