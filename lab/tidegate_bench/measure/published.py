"""The figures that README.md and docs/performance.md show: their cases, file and tables.  Pure.

`tidegate bench published --vs-kafka --publish` writes them to docs/benchmarks.json, and
gateway/generate_docs.py writes the tables of both pages from that file.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from .figures import Spread
from .table import Row, cell, digits

FILE: Final = "docs/benchmarks.json"
COMMAND: Final = "./tidegate bench published --vs-kafka --publish"
COLUMNS: Final = 100
COMMIT_DIGITS: Final = 8
_UNITS: Final = {"cpu ms/MB": "ms/MB", "p50 ms": "ms"}
_DECIMALS: Final = 3


@dataclass(frozen=True, slots=True)
class Place:
    """The store of a case, its words in a table, and the cores of a broker; the log is SQLite."""

    words: str
    store: str
    cores: int | None


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the tables: one figure of a case of a scenario.  title: its words in a table."""

    scenario: str
    label: str
    figure: str
    place: Place
    title: str


_FILES: Final = Place("files, SQLite", "file", 1)
_SEAWEED: Final = Place("SeaweedFS, SQLite", "seaweedfs", None)
CASES: Final = (
    Case("ingest", "1MB 16p 1c plain", "cpu ms/MB", _FILES, "ingest, 1 MB batches, one core"),
    Case("ingest", "16K 16p 1c plain", "cpu ms/MB", _FILES, "the same, 16 KiB batches"),
    Case("ingest", "16K 16p 64c plain", "cpu ms/MB", _FILES, "the same, 16 KiB, 64 connections"),
    Case("ingest", "a3 Java defaults", "cpu ms/MB", _SEAWEED, "ingest, Java's default producer"),
    Case("fanout", "tail 50 readers", "cpu ms/MB", _SEAWEED, "reading at the tail, 50 readers"),
    Case(
        "latency",
        "idle ack no budget",
        "p50 ms",
        _SEAWEED,
        "acknowledgement, median, no limit of PUTs",
    ),
)


class Figure(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The median of some runs, and their range where it is known."""

    median: float
    low: float | None = None
    high: float | None = None


class Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the tables with its figures."""

    case: str
    place: str
    unit: str
    tidegate: Figure
    kafka: Figure


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rows of one run of the bench.  commit: in full."""

    date: str
    commit: str
    machine: str
    python: str
    cases: Sequence[Shown] = ()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    runs: Annotated[list[Run], msgspec.Meta(min_length=1)]


def from_json(content: bytes) -> list[Run]:
    """Return the runs of docs/benchmarks.json.

    Raises:
      msgspec.ValidationError: it has another form.
    """
    return msgspec.json.decode(content, type=_File).runs


def to_json(runs: Sequence[Run]) -> bytes:
    """Return the content of docs/benchmarks.json."""
    return msgspec.json.format(msgspec.json.encode(_File([*runs])), indent=2) + b"\n"


def with_cases(run: Run, rows: Sequence[Row]) -> Run:
    """Return a run with the figures of all published cases.

    Raises:
      KeyError: the rows lack a case, a broker or a figure.
    """
    found = {(row.case, row.broker): row.figures for row in rows}
    cases = [
        Shown(
            case.title,
            case.place.words,
            _UNITS[case.figure],
            _figure(found[case.label, "tidegate"][case.figure]),
            _figure(found[case.label, "kafka"][case.figure]),
        )
        for case in CASES
    ]
    return msgspec.structs.replace(run, cases=cases)


def readme_part(runs: Sequence[Run]) -> str:
    """Return README's table, and the machines below it."""
    rows = [
        f"| {each.case} | {each.place}, {run.date}"
        f" | {digits(each.tidegate.median)} {each.unit} | {digits(each.kafka.median)} {each.unit} |"
        for run in runs
        for each in run.cases
    ]
    head = "| case | store and log, day | Tidegate | Apache Kafka |"
    return "\n".join([head, "|---|---|---|---|", *rows, "", _machines(runs)])


def performance_part(runs: Sequence[Run]) -> str:
    """Return the table of docs/performance.md: with ranges, ratios and commits."""
    rows = [
        f"| {each.case} | {each.place} | {_cell(each.tidegate)} {each.unit}"
        f" | {_cell(each.kafka)} {each.unit} | {_ratio(each)}"
        f" | {run.date}, {run.commit[:COMMIT_DIGITS]} |"
        for run in runs
        for each in run.cases
    ]
    head = "| case | store and log | Tidegate | Apache Kafka | ratio | day, commit |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows, "", _machines(runs)])


def _figure(spread: Spread) -> Figure:
    median, low, high = (
        round(each, _DECIMALS) for each in (spread.median, spread.low, spread.high)
    )
    return Figure(median, low, high)


def _cell(figure: Figure) -> str:
    middle = figure.median
    low, high = (middle if each is None else each for each in (figure.low, figure.high))
    return cell(Spread(middle, low, high))


def _ratio(shown: Shown) -> str:
    return digits(shown.tidegate.median / shown.kafka.median) if shown.kafka.median else ""


def _machines(runs: Iterable[Run]) -> str:
    """Return one line for each machine; usually all runs were on one machine."""
    lines = dict.fromkeys(f"{run.machine}, Python {run.python}." for run in runs)
    return "\n\n".join(textwrap.fill(each, COLUMNS) for each in lines)
