"""The totals of many runs, for a person and for a program."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .run import Report
from .world.lending import PREFIX as LENDING

_SHOWN_FAILURES = 20
_SHOWN_CHARACTERS = 2000
_OK = 200


@dataclass(slots=True)
class Summary:
    """Totals of all finished seeds.  zones: see simulate()."""

    zones: int = 0
    seeds: int = 0
    operations: int = 0
    virtual_seconds: float = 0.0
    entries: int = 0
    lives: int = 0
    landed: Counter[str] = field(default_factory=Counter[str])
    seeds_with: Counter[str] = field(default_factory=Counter[str])
    failures: list[Report] = field(default_factory=list[Report])

    def add(self, report: Report) -> None:
        """Count a run."""
        self.seeds += 1
        self.operations += report.operations_done
        self.virtual_seconds += report.virtual_seconds
        self.entries += report.entries
        self.lives += report.lives
        self.landed.update(report.landed.counts)
        self.seeds_with.update(set(report.landed.counts))
        if report.violations:
            self.failures.append(report)

    def as_json(self, seconds: float, *, is_whole: bool) -> dict[str, object]:
        """Return one object; seconds: of real time.  is_whole: it has all requested seeds."""
        return {
            "complete": is_whole,
            "seeds": self.seeds,
            "operations": self.operations,
            "virtual_hours": round(self.virtual_seconds / 3600, 3),
            "log_entries": self.entries,
            "gateways_started": self.lives,
            "seconds": round(seconds, 3),
            **self._zones_json(),
            "faults": dict(sorted(self.landed.items())),
            "failures": [_failure_json(each) for each in self.failures],
        }

    def shown(self, seconds: float, *, is_whole: bool) -> RenderableType:
        """Return the same for a terminal."""
        rate = self.seeds / seconds if seconds else 0.0
        head = Text(
            f"{self.seeds} seeds{'' if is_whole else ' (stopped early)'},"
            f" {self.operations} operations, {self.virtual_seconds / 3600:.2f} virtual hours,"
            f" {self.entries} log entries, {self.lives} gateways started,"
            f" {seconds:.1f} s ({rate:.2f} seeds/s)"
        )
        parts: list[RenderableType] = [self._faults(), head]
        if self.zones:
            parts.append(Text(self._zones_text()))
        for report in self.failures[:_SHOWN_FAILURES]:
            parts.append(_failure_text(report))
        more = len(self.failures) - _SHOWN_FAILURES
        if more > 0:
            parts.append(Text(f"and {more} more seeds failed"))
        failed = len(self.failures)
        verdict = (
            f"{failed} seeds failed" if failed else "no violation; every promised fault landed"
        )
        parts.append(Text(verdict, style="bold red" if failed else "bold green"))
        return Group(*parts)

    def _zones_json(self) -> dict[str, object]:
        if not self.zones:
            return {}
        return {
            "zones": self.zones,
            "answers_in_zone": self.landed["zone.near"],
            "answers_across_zones": self.landed["zone.across"],
            "lent_reads": self.landed[f"{LENDING}{_OK}"],
        }

    def _zones_text(self) -> str:
        near, across = self.landed["zone.near"], self.landed["zone.across"]
        return (
            f"{self.zones} zones: {near} answers of gateways of the client's zone, {across} of"
            f" others, {self.landed[f'{LENDING}{_OK}']} reads lent by a gateway of the same zone"
        )

    def _faults(self) -> Table:
        table = Table("fault", "landed", "in seeds", box=None, pad_edge=False)
        for column in table.columns[1:]:
            column.justify = "right"
        for kind in sorted(self.landed):
            table.add_row(kind, str(self.landed[kind]), str(self.seeds_with[kind]))
        return table


def _failure_text(report: Report) -> Text:
    text = Text(f"\nseed {report.seed}, {len(report.violations)} violations\n", style="red")
    for each in report.violations[:5]:
        text.append(f"  {each.kind}: {each.text[-_SHOWN_CHARACTERS:]}\n", style="default")
    text.append(f"  again: {report.replay}\n", style="bold default")
    return text


def _failure_json(report: Report) -> dict[str, object]:
    return {
        "seed": report.seed,
        "replay": report.replay,
        "missing": list(report.landed.missing),
        "violations": [{"kind": each.kind, "text": each.text} for each in report.violations],
    }
