"""`tidegate pipeline once`: merge all runs, compact the topics that are due, and end."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import Final

import trio

from ..costs import CostBook
from ..counters import PipelineCounters
from ..driver import Driver
from ..planning.plan import backlog
from .options import Options, chosen_runner
from .parts import living_driver, opened_runner, opened_shared
from .progress import RoundBar, is_terminal
from .report import STOPPED, check_level, run_command, size_text
from .stopping import StoppedAtOnce, Stopping, stopping_by_signals

BUSY: Final = "another pipeline is at work on this cluster and merges: this command did nothing"


@dataclass(frozen=True, slots=True)
class _Done:
    counters: PipelineCounters
    runner: str
    seconds: float
    left_runs: int
    left_bytes: int
    is_busy: bool
    last_failed: int
    is_stopped: bool

    @property
    def exit_code(self) -> int:
        if self.is_stopped:
            return STOPPED
        return 1 if self.is_busy or self.last_failed else 0


def run_once(options: Options, *, as_json: bool, log_level: str) -> int:
    """Merge; return the exit code."""

    def work() -> int:
        check_level(log_level)
        kind, sentence = chosen_runner(options)
        if sentence:
            print(f"tidegate: {sentence}", file=sys.stderr)
        done = trio.run(_merge, options, kind, RoundBar(is_shown=is_terminal() and not as_json))
        print(_json(done) if as_json else _text(done))
        return done.exit_code

    return run_command(work)


async def _merge(options: Options, kind: str, bar: RoundBar) -> _Done:
    began = time.monotonic()
    async with (
        stopping_by_signals() as stopping,
        opened_shared(options, stopping, CostBook(time.time)) as shared,
        opened_runner(options, kind, stopping) as runner,
        living_driver(shared, runner, options, bar, stopping=stopping) as driver,
    ):
        last_failed = await _rounds(driver, stopping)
        return _done(driver, kind, began, last_failed, stopping)
    raise StoppedAtOnce


async def _rounds(driver: Driver, stopping: Stopping) -> int:
    """Run rounds until one has no work; return the number of failed units still not done."""
    failed = 0
    for do in (driver.run_once, driver.compact_once):
        published, last_failed = 1, 0
        while published and not stopping.is_asked:
            failed_before = driver.counters.failed
            published = await do()
            last_failed = driver.counters.failed - failed_before
        failed += last_failed
    return max(failed, driver.failing)


def _done(driver: Driver, kind: str, began: float, last_failed: int, stopping: Stopping) -> _Done:
    left_runs, left_bytes = backlog(driver.state)
    return _Done(
        driver.counters,
        kind,
        time.monotonic() - began,
        left_runs,
        left_bytes,
        driver.counters.rounds > 0 and not driver.holds_claim,
        last_failed,
        stopping.is_asked,
    )


def _json(done: _Done) -> str:
    counters = done.counters
    return json.dumps(
        {
            "runner": done.runner,
            "rounds": counters.rounds,
            "units": counters.units,
            "parents": counters.parents,
            "bytes": counters.bytes,
            "records": counters.records,
            "compacted": counters.compacted,
            "removed": counters.removed,
            "gets": round(counters.gets),
            "failed": counters.failed,
            "dropped": dict(counters.dropped),
            "left_runs": done.left_runs,
            "left_bytes": done.left_bytes,
            "busy": done.is_busy,
            "seconds": round(done.seconds, 3),
        }
    )


def _why_nothing(done: _Done) -> str:
    if done.is_stopped:
        return "stopped: nothing was merged"
    return "nothing was merged" if done.counters.failed else "nothing to merge"


def _text(done: _Done) -> str:
    if done.is_busy:
        return BUSY
    counters = done.counters
    lines = [
        f"merged {counters.parents} runs of {counters.records} records"
        f" ({size_text(counters.bytes)}) into {counters.units} segments,"
        f" with {counters.gets:.0f} GETs, in {done.seconds:.1f} s"
        if counters.units
        else _why_nothing(done)
    ]
    if counters.compacted:
        lines.append(
            f"compacted in {counters.compacted} rounds: {counters.removed} records removed,"
            " since newer ones of their keys exist"
        )
    lines += [f"dropped {n}: {reason}" for reason, n in sorted(counters.dropped.items())]
    if counters.failed:
        lines.append(f"failed {counters.failed}: see the errors above")
    if done.left_runs:
        lines.append(f"left {done.left_runs} runs ({size_text(done.left_bytes)})")
    return "\n".join(lines)
