"""The last few reports of the pipeline's drivers about their work, for people."""

from __future__ import annotations

from typing import Any

import msgspec

from ...events.pipeline import PipelineReport, PipelineReported

KEPT_REPORTS = 10


class ReportTable:
    """Reports in the order of the log; new ones replace the oldest."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, PipelineReport]] = []

    @property
    def rows(self) -> list[tuple[int, int, PipelineReport]]:
        """Return (incarnation, log time in ms, report)."""
        return list(self._rows)

    def fold_reported(self, event: PipelineReported, log_time_ms: int) -> None:
        """Take a report."""
        self._rows.append((event.incarnation, log_time_ms, event.report))
        del self._rows[:-KEPT_REPORTS]

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return [[who, when, msgspec.to_builtins(report)] for who, when, report in self._rows]

    def decode(self, rows: list[Any]) -> None:
        """Restore the reports from the rows of encode()."""
        self._rows = [
            (who, when, msgspec.convert(report, PipelineReport)) for who, when, report in rows
        ]
