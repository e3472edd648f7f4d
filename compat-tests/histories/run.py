"""Histories of transactions in three zones, while gateways, log, store and their ways fail.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/histories/run.py --minutes 10 --seed 1

Each family of clients appends unique values to lists and moves amounts between accounts, in
transactions; readers of both isolation levels read everything meanwhile, and the pipeline merges.
One fault at a time, drawn by seed.  At the end all histories are judged (checks.py); the exit
status is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from faults.attendance import Say
from faults.clients import installed
from faults.driver import Driver
from faults.plan import KINDS, TRANSACTION_KINDS, Fault
from faults.run import FaultRun
from faults.run import Options as FaultOptions
from faults.stalls import by_kind
from faults.world import World, running_world
from harness.places import WORK

from histories.clients import FAMILIES, Launcher, create_topics, pay_in
from histories.history import History, Records
from histories.report import Figures, table
from histories.watch import HistoryWatch, Judged, errors_inside

ALL_KINDS: Final = (*KINDS, *TRANSACTION_KINDS)


@dataclass(frozen=True, slots=True)
class Options:
    """The options.  rate: transactions a second of each writer."""

    minutes: float
    seed: int
    clients: Sequence[str]
    kinds: Sequence[str] = ALL_KINDS
    rate: int = 4
    most_faults: int | None = None


class HistoryRun(FaultRun):
    """Also hurts clients."""

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
    """Run it in a folder that is empty; what was logged stays there."""
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
        options.minutes,
        options.seed,
        options.clients,
        options.kinds,
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


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="histories of transactions under faults")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", default=",".join(FAMILIES), help="by comma")
    parser.add_argument("--kinds", default=None, help="kinds of faults, by semicolon, or none")
    parser.add_argument("--rate", type=int, default=4, help="transactions a second of a writer")
    parser.add_argument("--folder", type=Path, help="where logs and data stay (an empty one)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    given = parser.parse_args()
    say = partial(print, flush=True, file=sys.stderr if given.json else sys.stdout)
    options = Options(
        given.minutes,
        given.seed,
        installed(given.clients.split(","), say, FAMILIES),
        _kinds(given.kinds),
        given.rate,
    )
    WORK.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=WORK, prefix="histories-") as made:
        figures = history_run(options, (given.folder or Path(made)).absolute(), say)
    as_json = msgspec.json.format(msgspec.json.encode(figures)).decode()
    print(as_json if given.json else table(figures))
    return 0 if figures.is_clean else 1


def _kinds(given: str | None) -> Sequence[str]:
    if given is None:
        return ALL_KINDS
    return () if given == "none" else given.split(";")


if __name__ == "__main__":
    sys.exit(main())
