"""`tidegate pipeline run`: rounds for as long as the process lives.

Rounds of merging and of compaction run at the same time: compacting a large partition takes
minutes, and new runs must not wait for it.
If log, store or Spark do not answer, the command waits and tries again.  If the driver's
incarnation was fenced, it registers another.  Only an error that an operator must fix ends it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import structlog
import trio

from tidegate_coordination.coordinator.coordinator import CoordinatorUnavailable, ProposalFailed
from tidegate_coordination.log.access import GatewayFenced
from tidegate_coordination.log.metadata_log import LogUnavailable
from tidegate_coordination.refusals import first_of, leaves
from tidegate_runtime.output import PROCESS_OUTPUT
from tidegate_storage.stores.object_store import StoreUnavailable

from ..costs import CostBook
from ..driver import Driver
from ..planning.plan import backlog
from ..runners.spark_trouble import AttemptsUsedUp
from .options import Options, chosen_runner, log_url, store_url
from .pages import PipelinePages, served
from .parts import NothingThere, StoppableRunner, living_driver, opened_runner, opened_shared
from .progress import RoundBar, is_terminal
from .report import check_level, run_command
from .stopping import StopAsked, StoppedAtOnce, Stopping, stopping_by_signals

_log = structlog.get_logger("tidegate.pipeline")

AGAIN_SECONDS: Final = 2.0
# Temporary errors: the driver's incarnation ends, and another one starts.
_PASSING: Final = (
    AttemptsUsedUp,
    CoordinatorUnavailable,
    GatewayFenced,
    LogUnavailable,
    NothingThere,
    ProposalFailed,
    StopAsked,
    StoreUnavailable,
    trio.TooSlowError,
)


@dataclass(frozen=True, slots=True)
class Residence:
    """How to keep running.

    interval_seconds: between rounds that find nothing.  admin: host:port of its pages, or "".
    """

    interval_seconds: float
    admin: str
    stop_at_eof: bool


@PROCESS_OUTPUT.queued()
def run_resident(options: Options, residence: Residence, *, log_level: str) -> int:
    """Run until a signal comes; return the exit code."""

    def work() -> int:
        check_level(log_level or ("warning" if is_terminal() else "info"))
        # Log this before the first wait.
        _ = log_url(options.data, options.log), store_url(options.data, options.object_store)
        kind, sentence = chosen_runner(options)
        if sentence:
            print(f"tidegate: {sentence}", file=sys.stderr)
        trio.run(_stay, options, kind, residence)
        return 0

    return run_command(work)


async def _stay(options: Options, kind: str, residence: Residence) -> None:
    pages = PipelinePages(version("tidegate"))
    costs = CostBook(time.time)
    async with (
        stopping_by_signals(stop_at_eof=residence.stop_at_eof) as stopping,
        served(pages, residence.admin),
        opened_runner(options, kind, stopping) as runner,
    ):
        while not stopping.is_asked:
            try:
                await _live(options, runner, residence.interval_seconds, stopping, pages, costs)
            except Exception as error:
                if not all(isinstance(each, _PASSING) for each in leaves(error)):
                    raise
                if stopping.is_asked:
                    break
                _log.warning("waiting; then trying again", error=str(first_of(error)))
                await stopping.wait(AGAIN_SECONDS)
        return
    raise StoppedAtOnce


async def _live(
    options: Options,
    runner: StoppableRunner,
    interval_seconds: float,
    stopping: Stopping,
    pages: PipelinePages,
    costs: CostBook,
) -> None:
    """Run one incarnation of the driver."""
    bar = RoundBar(is_shown=is_terminal())
    async with (
        opened_shared(options, stopping, costs) as shared,
        living_driver(shared, runner, options, bar, stopping=stopping) as driver,
    ):
        _log.info("merging", cluster=driver.state.cluster_id)
        pages.driver = driver
        try:
            await _work(driver, interval_seconds, stopping)
        finally:
            pages.driver = None


async def _work(driver: Driver, interval_seconds: float, stopping: Stopping) -> None:
    async with trio.open_nursery() as nursery:
        for what, do in (("merged", driver.run_once), ("compacted", driver.compact_once)):
            nursery.start_soon(_rounds, driver, what, do, interval_seconds, stopping)


async def _rounds(
    driver: Driver,
    what: str,
    do: Callable[[], Awaitable[int]],
    interval_seconds: float,
    stopping: Stopping,
) -> None:
    """Run rounds of one kind until a signal comes."""
    while not stopping.is_asked:
        if not await _round(driver, what, do):
            await stopping.wait(interval_seconds)


async def _round(driver: Driver, what: str, do: Callable[[], Awaitable[int]]) -> int:
    began = time.monotonic()
    try:
        published = await do()
    except (CoordinatorUnavailable, ProposalFailed) as error:
        # The incarnation may still hold its lease, and the claim.
        _log.warning("the metadata log took nothing; trying again", error=str(error))
        return 0
    if published:
        runs, run_bytes = backlog(driver.state)
        _log.info(
            what,
            units=published,
            seconds=round(time.monotonic() - began, 3),
            left_runs=runs,
            left_bytes=run_bytes,
        )
    return published
