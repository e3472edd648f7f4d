"""Histories of transactions in three zones, while gateways, log, store and links fail.

    compat-tests/run histories --minutes 10 --seed 1

Each family of clients appends unique values to lists and moves amounts between accounts, in
transactions; readers of both isolation levels read everything meanwhile, and the pipeline merges.
One fault at a time, drawn by seed.  At the end all histories are judged (checks.py); the exit
status is 1 if a promise was broken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from faults.attendance import Say
from faults.clients import installed
from faults.driver import Driver
from faults.plan import KINDS, TRANSACTION_KINDS, Fault
from faults.run import FaultRun
from faults.run import Options as FaultOptions
from faults.stalls import by_kind
from faults.world import World, running_world
from runner.options import option, unasked
from runner.result import Result, say
from runner.shared import Kept, Seeded

from histories.clients import FAMILIES, Launcher, create_topics, pay_in
from histories.history import History, Records
from histories.report import Figures, table
from histories.watch import HistoryWatch, Judged, errors_inside

ALL_KINDS: Final = (*KINDS, *TRANSACTION_KINDS)
NO_KINDS: Final = ("none",)


@dataclass(frozen=True)
class Options(Seeded, Kept):
    """The options."""

    minutes: float = 10.0
    clients: Sequence[str] = option(tuple(FAMILIES), "by comma", choices=FAMILIES)
    kinds: Sequence[str] = option(ALL_KINDS, "of faults, by semicolon; or none", separator=";")
    rate: int = option(4, "transactions a second of a writer")
    most_faults: int | None = unasked(None)


class HistoryRun(FaultRun):
    """A run whose faults also hit clients."""

    def _client(self, fault: Fault) -> None:
        assert isinstance(self._watch, HistoryWatch)
        is_kill = fault.kind.endswith("kill")
        hurt = self._watch.kill_client if is_kill else self._watch.pause_client
        hurt(fault.gateway, fault.seconds)

    doers: ClassVar[Mapping[str, Callable[[Any, Fault], None]]] = {
        **FaultRun.doers,
        "client": _client,
    }


def history_run(options: Options, folder: Path, say: Say) -> Figures:
    """Run it in an empty folder; its logs stay there."""
    with running_world(folder) as world:
        create_topics(world.bootstrap, options.clients)
        records = Records()
        bank = pay_in(world.bootstrap, records)
        driver = Driver(world, folder / "logs" / "driver.log")
        driver.start()
        launcher = Launcher(world.bootstrap, options.rate, options.seed, folder / "logs")
        histories = [History(each, records) for each in options.clients]
        watch = HistoryWatch(world, launcher, histories, bank, driver, say)
        try:
            return _figures(world, watch, options)
        finally:
            watch.close()
            driver.stop()


def _figures(world: World, watch: HistoryWatch, options: Options) -> Figures:
    began = time.monotonic()
    wanted = FaultOptions(
        minutes=options.minutes,
        seed=options.seed,
        clients=options.clients,
        kinds=options.kinds,
        most_faults=options.most_faults,
    )
    if options.kinds:
        happened = HistoryRun(world, watch, wanted).run()
    else:
        happened = []
        watch.wait(options.minutes * 60)
    minutes = round((time.monotonic() - began) / 60, 1)
    watch.problems += errors_inside(world)
    judged = watch.finish(happened)
    return Figures(
        **{each.name: getattr(judged, each.name) for each in fields(Judged)},
        seed=options.seed,
        minutes=minutes,
        kinds=by_kind(happened, watch.ledgers),
        happened=happened,
    )


def main(options: Options) -> Result:
    """Run it."""
    kinds = () if options.kinds == NO_KINDS else options.kinds
    options = replace(options, clients=installed(options.clients, say, FAMILIES), kinds=kinds)
    with options.work_folder("histories") as folder:
        figures = history_run(options, folder, say)
    return Result(figures.is_clean, table(figures), figures)
