"""Runs scenarios one after the other and prints their figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import Final, cast

from rich.console import Console

from . import publishing
from .checkout import need_librdkafka
from .errors import BenchError
from .lab import Lab
from .measure import published, table
from .measure.header import header
from .measure.table import Report
from .options import Options, check

WIDE: Final = 240  # columns of a file or a pipe
SCENARIOS: Final[Mapping[str, str]] = {
    "ingest": "ingest",
    "fanout": "fanout",
    "latency": "latency",
    "lone-producer": "lone_producer",
    "state": "state",
    "commits": "commits",
    "connections": "connections",
    "restart": "restart",
    "metadata": "metadata",
    "merge": "merge",
    "compact": "compact",
    "cold-read": "cold_read",
    "transactions": "transactions",
    "transaction-state": "transaction_state",
    "published": "published",
}


def run(
    names: Sequence[str], options: Options, *, as_json: bool, is_published: bool = False
) -> int:
    """Run scenarios; return the exit code.  Progress goes to stderr.

    If a scenario fails, the figures before the failure are still printed.

    Args:
      is_published: write the figures into the pages, too.
    """
    progress = _console(stderr=True)
    reports: list[Report] = []
    told: dict[str, object] = {}
    try:
        modules = {name: _scenario(name) for name in names}
        need_librdkafka()
        origin = publishing.origin(names, options) if is_published else None
        told = header(check(options))
        with ExitStack() as stack:
            lab = Lab(options, progress, stack)
            for name, scenario in modules.items():
                reports.append(_report(name, scenario, lab))
        if origin is not None:
            publishing.publish(origin, reports)
            progress.print(f"{published.FILE} and the pages have the figures: commit them")
    except BenchError as error:
        progress.print(f"tidegate: {error}", highlight=False, markup=False)
        told["error"] = str(error)
    _print(told, reports, as_json=as_json)
    return 1 if "error" in told else 0


def _report(name: str, scenario: Callable[[Lab], Report], lab: Lab) -> Report:
    lab.rows.clear()
    try:
        return scenario(lab)
    except BenchError:
        if lab.rows:
            found = Report(f"{name}, until it failed", list(lab.rows))
            table.print_report(found, lab.console)
        raise


def _print(told: Mapping[str, object], reports: Sequence[Report], *, as_json: bool) -> None:
    if as_json:
        print(table.as_json(told, reports))
        return
    console = _console(stderr=False)
    if reports:
        console.print(*(f"{name}: {value}" for name, value in told.items()), sep="\n")
    for report in reports:
        table.print_report(report, console)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDE)


def _scenario(name: str) -> Callable[[Lab], Report]:
    if name not in SCENARIOS:
        raise BenchError(f"there is no scenario {name}; there are {', '.join(SCENARIOS)}")
    module = import_module(f"tidegate_bench.scenarios.{SCENARIOS[name]}")
    return cast(Callable[[Lab], Report], module.run)
