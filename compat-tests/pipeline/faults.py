"""Faults with real Spark, round after round: is every record as it was acknowledged?

    compat-tests/run pipeline-faults --rounds 50 --json

A gateway on files and SQLite serves producers (librdkafka; all codecs, some idempotent, some with
keys of a compacted topic).  Meanwhile drivers of the pipeline merge and compact on Spark.  Their
sizes and times are so small that a round has many merges.  Each round draws faults (fault_kinds.py;
the same seed draws the same faults).  Now and then all topics are read from their start, and each
record is compared.  At the end no fault is left, and grace periods pass.  Then the store must hold
exactly the objects that the log names.  The exit status is 1 if a promise was broken, or if a kind
of fault was drawn but never landed.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from harness.broker import LocalBroker, start
from harness.process import tail
from runner.options import option
from runner.result import Result, say
from runner.shared import Seeded

from pipeline.audit import StoreFolder, load, named
from pipeline.drivers import Drivers, event_of, wait_until
from pipeline.fault_kinds import CUT, FAULTS, KEYED, World, set_policy, strike
from pipeline.fault_topics import KEPT, STEADY, make_topics, streams_of
from pipeline.ledger import Ledger
from pipeline.load import Doomed, Load
from pipeline.reading import Kept, SteadyReader, read_all
from tidegate_pipeline.planning.plan import backlog

SETTINGS: Final = {
    "lease.ms": "4000",
    "housekeeping.interval.ms": "1000",
    "object.delete.grace.ms": "4000",
    "orphan.scan.interval.ms": "3000",
    "log.backup.interval.ms": "2000",
    "snapshot.interval.entries": "400",
    "fetch.cache.bytes": str(4 << 20),
}
FAULTS_A_ROUND: Final = (1, 3)
PROGRESS_SECONDS: Final = 120.0
HEALED_SECONDS: Final = 180.0
TOLD: Final = (
    "a unit failed",
    "a task was lost",
    "units have no results",
    "Spark is gone",
    "waiting; then trying again",
)


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    rounds: int = 50
    master: str = option("local[2]", "Spark's")
    read_every: int = option(5, "rounds")
    only: tuple[str, ...] = option(tuple(FAULTS), "kinds of faults, by comma", choices=FAULTS)


@dataclass(slots=True)
class Figures:
    """The findings of a run.  dropped: units by reason.  told: counts of texts in drivers' logs."""

    rounds: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)
    acknowledged: int = field(default=0, init=False)
    without_answer: int = field(default=0, init=False)
    read_back: int = field(default=0, init=False)
    drivers: dict[str, int] = field(default_factory=dict[str, int], init=False)
    drawn: dict[str, int] = field(default_factory=dict[str, int], init=False)
    landed: dict[str, int] = field(default_factory=dict[str, int], init=False)
    units_published: int = field(default=0, init=False)
    dropped: dict[str, int] = field(default_factory=dict[str, int], init=False)
    told: dict[str, int] = field(default_factory=dict[str, int], init=False)
    keyed_records_left: int = field(default=0, init=False)
    keyed_records_written: int = field(default=0, init=False)
    orphans_removed: int = field(default=0, init=False)
    objects_at_end: int = field(default=0, init=False)
    problems: list[str] = field(default_factory=list[str], init=False)


class FaultRun:
    """Rounds of faults, and the comparison after each."""

    def __init__(self, world: World, ledgers: dict[str, list[Ledger]], options: Options) -> None:
        self._world = world
        self._ledgers = ledgers
        self._options = options
        self._names = list(options.only)
        self._load = Load(streams_of(world.broker.bootstrap, ledgers))
        self._reader = SteadyReader(world.broker.bootstrap, ledgers[STEADY])
        self._drawn: Counter[str] = Counter()
        self._landed: Counter[str] = Counter()
        self._figures = Figures()

    def run(self) -> Figures:
        """Do all rounds, heal, and judge."""
        began = time.monotonic()
        self._load.start()
        self._world.doomed.begin()
        self._reader.start()
        try:
            for number in range(1, self._options.rounds + 1):
                self._round(number)
                self._reader.check()
            self._calm_down()
            self._heal()
        finally:
            self._world.drivers.stop_all()
        self._figures.seconds = round(time.monotonic() - began, 1)
        return self._total()

    def _round(self, number: int) -> None:
        began = time.monotonic()
        world = self._world
        rng = Random(f"{self._options.seed}-{number}")
        names = rng.sample(self._names, min(rng.randint(*FAULTS_A_ROUND), len(self._names)))
        for name in names:
            self._drawn[name] += 1
            landed = strike(name, world)
            self._landed[name] += landed
            self._load.check()
        self._wait_for_progress()
        if number % self._options.read_every == 0:
            self._read_everything()
        self._figures.rounds = number
        count = sum(each.acknowledged for each in self._every_ledger())
        seconds = time.monotonic() - began
        self._say(f"round {number}: {', '.join(names)}; {count} acknowledged; {seconds:.1f} s")

    def _every_ledger(self) -> list[Ledger]:
        return [each for ledgers in self._ledgers.values() for each in ledgers]

    def _wait_for_progress(self) -> None:
        """Wait until each stream got more acknowledgements, and a driver published more units."""
        before = [each.acknowledged for each in self._every_ledger()]
        published = self._world.drivers.published()
        self._world.driver()

        def is_on() -> bool:
            self._load.check()
            after = [each.acknowledged for each in self._every_ledger()]
            moved = all(new > old for new, old in zip(after, before, strict=True))
            return moved and self._world.drivers.published() > published

        if not wait_until(is_on, PROGRESS_SECONDS, pause=0.5):
            logs = "\n".join(tail(each.process.log, 1500) for each in self._world.drivers.alive)
            raise TimeoutError(f"no progress\n{tail(self._world.broker.log, 1500)}\n{logs}")

    def _read_everything(self) -> None:
        for name, ledgers in self._ledgers.items():
            reading = read_all(self._world.broker.bootstrap, ledgers, KEPT.get(name, Kept()))
            self._figures.read_back += reading.records
            self._complain(reading.problems)
            if name == KEYED:
                self._figures.keyed_records_left = reading.records
        missing = named(load(self._world.data)).live - self._world.store.keys()
        self._complain([f"{each} is named and not there" for each in sorted(missing)[:3]])

    def _calm_down(self) -> None:
        """End the load, and let the pipeline merge the remaining runs."""
        self._world.doomed.end()
        self._load.finish()
        set_policy(self._world.admin(), "compact")
        self._world.driver()
        total = self._reader.finish()
        self._figures.read_back += total.records
        self._complain(total.problems)
        merged = wait_until(lambda: not self._runs(), HEALED_SECONDS, pause=0.5)
        if not merged:
            self._complain([f"{self._runs()} runs are not merged"])
        self._read_everything()

    def _runs(self) -> int:
        return backlog(load(self._world.data))[0]

    def _heal(self) -> None:
        """Stop drivers, restart the gateway, wait for grace periods, and compare store and log."""
        self._world.drivers.stop_all()
        # While a gateway lives, an object that no entry names may still be committed by it.  So the
        # leftovers of this incarnation can be deleted only after its end.
        self._world.broker.kill()
        self._world.broker.start()

        def is_clean() -> bool:
            return named(load(self._world.data)).all == self._world.store.keys()

        clean = wait_until(is_clean, HEALED_SECONDS, pause=1.0)
        state = named(load(self._world.data))
        there = self._world.store.keys()
        self._figures.objects_at_end = len(there)
        if not clean:
            self._complain([f"orphan left: {each}" for each in sorted(there - state.all)[:5]])
            self._complain([f"named, not there: {each}" for each in sorted(state.all - there)[:5]])
        self._read_everything()

    def _complain(self, problems: Sequence[str]) -> None:
        for each in problems:
            self._say(f"PROBLEM {each}")
        self._figures.problems += problems

    def _total(self) -> Figures:
        figures, drivers = self._figures, self._world.drivers
        ledgers = self._every_ledger()
        figures.acknowledged = sum(each.acknowledged for each in ledgers)
        figures.without_answer = sum(len(each.unknown) for each in ledgers)
        figures.keyed_records_written = sum(each.acknowledged for each in self._ledgers[KEYED])
        figures.drivers = dict(drivers.started)
        figures.drawn, figures.landed = dict(self._drawn), dict(self._landed)
        figures.units_published = drivers.published()
        figures.dropped, figures.told = dict(drivers.dropped()), drivers.said(*TOLD)
        figures.orphans_removed = _orphans(self._world.broker.log)
        figures.problems += drivers.troubles()
        idle = [each for each in self._drawn if not self._landed[each]]
        if self._options.rounds >= len(FAULTS):
            figures.problems += [f"never landed: {each}" for each in idle]
        return figures

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def world_of(broker: LocalBroker, cut: Ledger, options: Options) -> World:
    """Return the targets of faults: a gateway, and drivers that are started when needed."""
    data = broker.folder / "data"
    return World(
        broker,
        data,
        Drivers(data, broker.folder, options.master),
        StoreFolder(data, load(data)),
        Doomed(broker.bootstrap),
        cut,
        Random(options.seed),
    )


def _orphans(log: Path) -> int:
    """Return how many unnamed objects the gateway deleted, by its log."""
    said = (event_of(line) for line in log.read_text().splitlines() if "nothing names" in line)
    return sum(int(each["count"]) for each in said if each)


def main(options: Options) -> Result:
    """Run it."""
    broker = start("tidegate", SETTINGS)
    assert isinstance(broker, LocalBroker)
    broker.command += ["--log-level", "info"]  # so that it logs deleted orphans
    try:
        broker.restart()
        ledgers = make_topics(broker.bootstrap)
        world = world_of(broker, ledgers[CUT][0], options)
        figures = FaultRun(world, ledgers, options).run()
    finally:
        broker.stop()
    if figures.problems:
        say(f"what is left is in {broker.folder}")
    else:
        shutil.rmtree(broker.folder)
    return Result(not figures.problems, figures=figures)
