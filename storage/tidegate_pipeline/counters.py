"""The counters of a driver since it started."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidegate_coordination.events.pipeline import PipelineReport


@dataclass(slots=True)
class PipelineCounters:
    """The work that the driver has done.

    units, parents, bytes, records: see PipelineReport, whose size_bytes is `bytes`; units are both
    merges and compactions.  compacted: units of compaction.  removed: records that compaction
    removed.  dropped: units that were not published, by reason.
    """

    rounds: int = 0
    units: int = 0
    parents: int = 0
    bytes: int = 0
    records: int = 0
    gets: float = 0.0
    compacted: int = 0
    removed: int = 0
    failed: int = 0
    last_error: str = ""
    dropped: Counter[str] = field(default_factory=Counter[str])

    def report_since(self, last: PipelineCounters) -> PipelineReport | None:
        """Return the work done since `last`; None if there was none."""
        report = PipelineReport(
            self.units - self.compacted - (last.units - last.compacted),
            self.compacted - last.compacted,
            self.parents - last.parents,
            self.bytes - last.bytes,
            self.records - last.records,
            self.removed - last.removed,
            self.failed - last.failed,
            self.last_error if self.failed > last.failed else "",
            dict(self.dropped - last.dropped),
        )
        return (
            report
            if any((report.merges, report.compactions, report.failed, report.dropped))
            else None
        )
