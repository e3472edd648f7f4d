"""Runs seeds in processes of their own, and prints progress and a summary."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .run import Report, simulate
from .summary import Summary
from .workers import Workers

_LINE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class SeedsOptions:
    """The command's options.  trace: a file for the trace of a single seed.  jobs: processes."""

    seeds: range
    operations: int
    trace: Path | None
    zones: int
    jobs: int | None


def run_seeds(options: SeedsOptions, *, as_json: bool) -> int:
    """Run the seeds; return the exit code."""
    started, summary, is_whole = time.monotonic(), Summary(options.zones), False
    try:
        _run_all(options, summary)
        is_whole = True
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    seconds = time.monotonic() - started
    if as_json:
        print(json.dumps(summary.as_json(seconds, is_whole=is_whole)), flush=True)
    else:
        Console(highlight=False).print(summary.shown(seconds, is_whole=is_whole), soft_wrap=True)
    return _exit_code(summary, is_whole=is_whole)


def _run_all(options: SeedsOptions, summary: Summary) -> None:
    seeds, operations, zones = options.seeds, options.operations, options.zones
    if options.trace is not None:
        summary.add(_traced(seeds[0], operations, zones, options.trace))
        return
    count = min(options.jobs or os.cpu_count() or 1, len(seeds))
    with Workers(seeds, operations, count, zones) as workers:
        _run(workers, len(seeds), summary)


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
    """Yield the reports, and show progress."""
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
