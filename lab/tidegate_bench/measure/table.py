"""The output: one table a scenario for people, one JSON object for scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from .figures import Spread


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one case at one broker; broker is "ratio" for ours over the other's."""

    case: str
    broker: str
    figures: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class Report:
    """A scenario's rows; notes are sentences that stand below the table."""

    scenario: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()


def ratio_row(case: str, ours: Mapping[str, Spread], theirs: Mapping[str, Spread]) -> Row:
    """Return our medians over theirs, where both have the figure."""
    ratios = {
        name: mine.median / theirs[name].median
        for name, mine in ours.items()
        if name in theirs and theirs[name].median
    }
    return Row(case, "ratio", {name: Spread(each, each, each) for name, each in ratios.items()})


def print_report(report: Report, console: Console) -> None:
    """Print a table; a cell is the median, with the range of the runs where they differ."""
    table = Table(title=report.scenario, title_justify="left", title_style="bold")
    names = list(dict.fromkeys(name for row in report.rows for name in row.figures))
    table.add_column("case")
    table.add_column("broker")
    for name in names:
        table.add_column(name, justify="right")
    for row in report.rows:
        cells = [cell(row.figures[name]) if name in row.figures else "" for name in names]
        table.add_row(row.case, row.broker, *cells, end_section=row.broker == "ratio")
    console.print(table)
    for note in report.notes:
        console.print(note)


def cell(spread: Spread) -> str:
    """Return the text of one cell: the median, with the range where the runs differ."""
    middle, low, high = (digits(each) for each in (spread.median, spread.low, spread.high))
    return middle if low == middle == high else f"{middle} ({low}-{high})"


def as_json(header: Mapping[str, object], reports: Sequence[Report]) -> str:
    """Return everything as one line."""
    return json.dumps({"header": header, "scenarios": [asdict(report) for report in reports]})


def digits(value: float) -> str:
    """Return a figure's text, three digits or so."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
