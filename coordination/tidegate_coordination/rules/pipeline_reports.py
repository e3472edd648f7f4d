"""Reports of a pipeline's driver about its work, visible to every reader of the log."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from ..events.pipeline import PipelineReport, PipelineReported
from .proposal import GATEWAYS, Decided, View

REPORTS = "pipeline reports"
MAX_TEXT = 300
MAX_REASONS = 16
_MAX_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ReportPipeline:
    """Add a driver's report.  Answer: False, without an effect, if its incarnation has ended."""

    incarnation: int
    report: PipelineReport
    reads: frozenset[str] = field(default=frozenset({GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=frozenset({REPORTS}), init=False)

    def decide(self, view: View) -> Decided[bool]:
        """See the class."""
        if not view.state.gateways.is_live(self.incarnation):
            return Decided((), False)
        return Decided((PipelineReported(self.incarnation, _bounded(self.report)),), True)


def _bounded(report: PipelineReport) -> PipelineReport:
    """Check that numbers fit into 64 bits, and that texts are bounded."""
    dropped = dict(sorted(report.dropped.items())[:MAX_REASONS])
    return msgspec.structs.replace(
        report,
        records=min(report.records, _MAX_NUMBER),
        size_bytes=min(report.size_bytes, _MAX_NUMBER),
        dropped={reason[:MAX_TEXT]: times for reason, times in dropped.items()},
        last_error=report.last_error[:MAX_TEXT],
    )
