"""Runs seeds of the second tier in processes, and prints progress and a summary."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from typing import Final

from tidegate_runtime.collector import calm_collector

from .run import Outcome, run

_LINE_SECONDS: Final = 10.0
_SHOWN: Final = 20


def run_many(seeds: range, operations: int, jobs: int | None, *, as_json: bool) -> int:
    """Run the seeds; return the exit code: 1 if one of them broke a promise."""
    started = time.monotonic()
    count = min(jobs or os.cpu_count() or 1, len(seeds))
    # The pool raises if one of its processes dies.
    with ProcessPoolExecutor(count, get_context("spawn"), calm_collector) as pool:
        outcomes = _told(pool.map(partial(run, operations=operations), seeds), len(seeds))
    seconds = time.monotonic() - started
    failed = [each for each in outcomes if each.violations]
    totals = {
        "seeds": len(outcomes),
        "operations": sum(each.operations for each in outcomes),
        "entries": sum(each.entries for each in outcomes),
        "conflicts": sum(each.conflicts for each in outcomes),
    }
    if as_json:
        shown = {"seconds": round(seconds, 1), "failures": [_shown(each) for each in failed]}
        print(json.dumps(totals | shown))
    else:
        _show(failed, operations)
        print(
            f"{totals['seeds']} seeds, {totals['operations']} operations, {totals['entries']} log"
            f" entries, {totals['conflicts']} lost races, {seconds:.1f} s"
            f" ({totals['operations'] / seconds:.0f} operations/s)"
        )
        print(f"{len(failed)} seeds broke a promise" if failed else "no violation")
    return 1 if failed else 0


def _told(outcomes: Iterable[Outcome], total: int) -> list[Outcome]:
    """Return the outcomes, and tell of progress on the way."""
    found: list[Outcome] = []
    said_at = time.monotonic()
    for outcome in outcomes:
        found.append(outcome)
        if time.monotonic() - said_at > _LINE_SECONDS:
            said_at = time.monotonic()
            sys.stderr.write(f"{len(found)} of {total} seeds\n")
    return found


def _shown(outcome: Outcome) -> dict[str, object]:
    violations = [asdict(each) for each in outcome.violations]
    return {"seed": outcome.seed, "entries": outcome.entries, "violations": violations}


def _show(failed: list[Outcome], operations: int) -> None:
    for outcome in failed[:_SHOWN]:
        seed = outcome.seed
        for violation in outcome.violations:
            print(f"seed {seed}, operation {violation.operation}: {violation.text}")
        print(f"  again: tidegate simulate --decisions --seeds {seed} --operations {operations}")
