"""The command `tidegate simulate`, plugged into `tidegate`."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .run import Report, simulate
from .summary import Summary
from .workers import Workers
from .zone_plan import MAX_ZONES

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)

_LINE_SECONDS = 10.0


def _seed_range(text: str) -> range:
    """Read "7" or "1-100"."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if found is None:
        raise typer.BadParameter("write A-B, as in 1-100")
    seeds = range(int(found[1]), int(found[2] or found[1]) + 1)
    if not seeds:
        raise typer.BadParameter("the last seed is below the first")
    return seeds


@app.callback()
def main(
    seeds: Annotated[str, typer.Option(help="First and last seed, A-B.")] = "1-20",
    operations: Annotated[
        int, typer.Option(min=1, help="Operations of all clients of a seed.")
    ] = 150,
    trace: Annotated[
        Path | None, typer.Option(help="Write the trace of a single seed to this file.")
    ] = None,
    zones: Annotated[
        int,
        typer.Option(min=0, max=MAX_ZONES, help="Spread gateways and clients over so many zones."),
    ] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a CPU.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run gateways in a simulated world of faults, and check all that clients see.

    Each seed is a world of its own: three gateways, or more with --zones, up to two drivers of the
    pipeline, one metadata log, one object store, and clients whose history is checked.  A seed
    gives the same run on every machine.  The exit code is 1 when a promise of the gateway was
    broken, or a fault that was drawn did not land.
    """
    wanted = _seed_range(seeds)
    if trace is not None and len(wanted) > 1:
        raise typer.BadParameter("--trace wants a single seed")
    started, summary, is_whole = time.monotonic(), Summary(zones), False
    try:
        if trace is not None:
            summary.add(_traced(wanted[0], operations, zones, trace))
        else:
            count = min(jobs or os.cpu_count() or 1, len(wanted))
            with Workers(wanted, operations, count, zones) as workers:
                _run(workers, len(wanted), summary)
        is_whole = True
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    seconds = time.monotonic() - started
    if as_json:
        typer.echo(json.dumps(summary.as_json(seconds, is_whole=is_whole)))
    else:
        Console(highlight=False).print(summary.shown(seconds, is_whole=is_whole), soft_wrap=True)
    raise typer.Exit(_exit_code(summary, is_whole=is_whole))


def _exit_code(summary: Summary, *, is_whole: bool) -> int:
    if summary.failures:
        return 1
    return 0 if is_whole else 130


def _traced(seed: int, operations: int, zones: int, path: Path) -> Report:
    report = simulate(seed, operations, zones)
    path.write_text("".join(f"{line}\n" for line in report.trace), encoding="utf-8")
    return report


def _run(workers: Workers, total: int, summary: Summary) -> None:
    for report in _shown(workers.reports(), total, Console(stderr=True)):
        summary.add(report)


def _shown(reports: Iterable[Report], total: int, console: Console) -> Iterator[Report]:
    """Pass reports on; show how far they are."""
    if console.is_terminal:
        yield from _with_bar(reports, total, console)
    else:
        yield from _with_lines(reports, total)


def _with_bar(reports: Iterable[Report], total: int, console: Console) -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    failed = 0
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("seeds", total=total)
        for report in reports:
            failed += bool(report.violations)
            progress.update(task, advance=1, description=f"seeds, {failed} failed")
            yield report


def _with_lines(reports: Iterable[Report], total: int) -> Iterator[Report]:
    done, failed, said_at = 0, 0, -_LINE_SECONDS
    for report in reports:
        yield report
        done, failed = done + 1, failed + bool(report.violations)
        if report.violations:
            sys.stderr.write(f"seed {report.seed} failed: {report.violations[0].kind}\n")
        if time.monotonic() - said_at > _LINE_SECONDS:
            said_at = time.monotonic()
            sys.stderr.write(f"{done} of {total} seeds, {failed} failed\n")
