"""kill -9 under load, many times: is every acknowledged record there, once, in order?

    compat-tests/run crash --rounds 100 --store file

Each round lets a producer and a consumer group work, kills the gateway, starts it again on the same
port and data, and waits until records are acknowledged again.  `--store s3` starts SeaweedFS for
the objects; `--object-store URL` uses a store that runs already.  Prints a line a round and figures
as JSON; exit status 1 when a promise was broken.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from harness.broker import LocalBroker, running
from harness.places import ROOT
from harness.probe import answers
from harness.process import StartFailed, spawn, tail
from runner.options import option
from runner.result import Result, say
from runner.shared import Seeded

from crash.ledger import Verdict, judge
from crash.load import (
    SESSION_MS,
    Consumption,
    Production,
    Worker,
    committed_offsets,
    create_topic,
    read_everything,
)
from crash.seaweed_store import seaweed_store

SERVING_SECONDS = 60.0
PROGRESS_SECONDS = 60.0
# In one of GROUP_ROUNDS rounds the kill waits until the group has read and committed more.
GROUP_ROUNDS = 3
SETTINGS = {"group.min.session.timeout.ms": str(SESSION_MS)}
LOAD_SECONDS = (0.2, 1.2)


@dataclass(slots=True)
class Figures:
    """The measurements of a run.  Times begin at the kill of the gateway."""

    rounds: int = 0
    acknowledged_records: int = 0
    failed_deliveries: int = 0
    lost: int = 0
    duplicates: int = 0
    misplaced: int = 0
    out_of_order: int = 0
    group_records: int = 0
    group_commits: int = 0
    group_members: int = 0
    kill_to_serving_p50_seconds: float = 0.0
    kill_to_serving_max_seconds: float = 0.0
    kill_to_acknowledged_p50_seconds: float = 0.0
    kill_to_acknowledged_max_seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        bad = self.lost or self.duplicates or self.misplaced or self.out_of_order
        return not (bad or self.problems)


class CrashRun:
    """A gateway that is killed, and the load on it."""

    def __init__(self, broker: LocalBroker, seed: int, say: Callable[[str], None]) -> None:
        self._broker = broker
        self._random = random.Random(seed)
        self._say = say
        self._production = Production(broker.bootstrap)
        self._consumption = Consumption(broker.bootstrap)
        self._workers = [Worker(self._production), Worker(self._consumption)]
        self._serving: list[float] = []
        self._acknowledged: list[float] = []

    def run(self, rounds: int) -> Figures:
        """Do all rounds, then read everything and judge."""
        create_topic(self._broker.bootstrap)
        for worker in self._workers:
            worker.start()
        try:
            self._wait_for(lambda: self._production.ledger.count > 0)
            for number in range(1, rounds + 1):
                self._round(number)
        except BaseException:
            self._production.give_up()
            raise
        finally:
            self._finish()
        return self._figures(rounds)

    def _finish(self) -> None:
        errors: list[Exception] = []
        for worker in self._workers:
            try:
                worker.finish()
            except Exception as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("the load broke", errors)

    def _round(self, number: int) -> None:
        time.sleep(self._random.uniform(*LOAD_SECONDS))
        if number % GROUP_ROUNDS == 0:
            delivered, commits = self._consumption.delivered, self._consumption.commits
            self._wait_for(
                lambda: (
                    self._consumption.delivered > delivered
                    and self._consumption.commits > commits + 3
                )
            )
        killed_at = time.monotonic()
        self._broker.kill()
        self._start_again()
        self._serving.append(time.monotonic() - killed_at)
        before = self._production.ledger.count
        if number % 2:
            self._consumption.renew.set()
        self._wait_for(lambda: self._production.ledger.count > before)
        self._acknowledged.append(time.monotonic() - killed_at)
        self._say(
            f"round {number}: serving after {self._serving[-1]:.2f} s, acknowledging after"
            f" {self._acknowledged[-1]:.2f} s, {self._production.ledger.count} acknowledged,"
            f" {self._consumption.delivered} consumed"
        )

    def _start_again(self) -> None:
        """Start the gateway; poll more often than LocalBroker.start, as the time is measured."""
        broker = self._broker
        process = broker.process = spawn(broker.command, broker.log, cwd=ROOT)
        deadline = time.monotonic() + SERVING_SECONDS
        while not answers("127.0.0.1", broker.port):
            if process.popen.poll() is not None or time.monotonic() > deadline:
                raise StartFailed(f"it did not come back\n{tail(broker.log)}")
            time.sleep(0.01)

    def _wait_for(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS
        while not done():
            for worker in self._workers:
                worker.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no progress\n{tail(self._broker.log)}")
            time.sleep(0.005)

    def _figures(self, rounds: int) -> Figures:
        bootstrap = self._broker.bootstrap
        verdict = judge(self._production.ledger, read_everything(bootstrap))
        return Figures(
            rounds=rounds,
            acknowledged_records=self._production.ledger.count,
            failed_deliveries=len(self._production.ledger.failed),
            lost=verdict.lost,
            duplicates=verdict.duplicates,
            misplaced=verdict.misplaced,
            out_of_order=verdict.out_of_order,
            group_records=self._consumption.delivered,
            group_commits=self._consumption.commits,
            group_members=self._consumption.members,
            kill_to_serving_p50_seconds=_middle(self._serving),
            kill_to_serving_max_seconds=round(max(self._serving), 3),
            kill_to_acknowledged_p50_seconds=_middle(self._acknowledged),
            kill_to_acknowledged_max_seconds=round(max(self._acknowledged), 3),
            problems=self._problems(verdict, committed_offsets(bootstrap)),
        )

    def _problems(self, verdict: Verdict, committed: dict[int, int]) -> list[str]:
        problems = [*verdict.examples, *self._consumption.problems]
        for number, error in self._production.ledger.failed[:3]:
            problems.append(f"record {number} failed: {error}")
        for partition, progress in self._consumption.progress.items():
            offset = max(committed[partition], 0)
            if not progress.committed <= offset <= progress.attempted:
                problems.append(f"partition {partition} has committed {offset}, not {progress}")
        if not self._consumption.commits:
            problems.append("the group never committed")
        return problems


def _middle(seconds: list[float]) -> float:
    return round(statistics.median(seconds), 3)


def crash_run(
    rounds: int, *, object_store: str | None, seed: int, say: Callable[[str], None]
) -> Figures:
    """Run it on a new gateway.  object_store: a URL; None for files."""
    settings = dict(SETTINGS)
    if object_store is not None:
        settings["object.store"] = object_store
    with running("tidegate", settings) as broker:
        assert isinstance(broker, LocalBroker)
        return CrashRun(broker, seed, say).run(rounds)


@contextmanager
def _object_store(kind: str, url: str | None) -> Generator[str | None]:
    if url is not None or kind == "file":
        yield url
        return
    with TemporaryDirectory() as folder, seaweed_store(Path(folder)) as url:
        yield url


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    rounds: int = 100
    store: Literal["file", "s3"] = "file"
    object_store: str | None = option(None, "the URL of a store that runs already")


def main(options: Options) -> Result:
    """Run it."""
    with _object_store(options.store, options.object_store) as url:
        figures = crash_run(options.rounds, object_store=url, seed=options.seed, say=say)
    return Result(figures.is_clean, figures=figures)
