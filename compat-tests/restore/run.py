"""A metadata log is lost and restored while transactions are open.

    compat-tests/run restore

It runs the zones and clients of histories/.  The log is copied once, under load.  Some time later
the log is dropped and all gateways are killed, and `tidegate log restore` makes a new log.  New
clients take over the transactional ids.  Then the old clients, which were stopped meanwhile,
continue as zombies.  Transactions that were committed before the copy must be visible wholly, open
ones nowhere, and those committed after the copy wholly or not at all.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final

from faults.attendance import Say, now_ms
from faults.clients import Family, installed
from faults.driver import Driver
from faults.world import BUCKET, World, running_world
from histories.clients import FAMILIES, Launcher, create_topics, pay_in
from histories.history import History, Records
from histories.report import summary
from histories.watch import HistoryWatch, Judged
from runner.options import option
from runner.result import Result, say
from runner.shared import Kept, Seeded

from restore.forgiving import Lost, forgive, is_open_at, zombies
from restore.keeper import Keeper

RESTORE_SECONDS: Final = 120.0
READ_SECONDS: Final = 2.0
ZOMBIE_SECONDS: Final = 6.0
NO_SCHEDULE: Final = {"log.backup.interval.ms": "0"}


@dataclass(frozen=True)
class Options(Seeded, Kept):
    """The options."""

    clients: Sequence[str] = option(tuple(FAMILIES), "by comma", choices=FAMILIES)
    seconds: float = option(15.0, "of load before the copy, after it, and after the restore")
    rate: int = option(4, "transactions a second of a writer")


@dataclass(slots=True)
class Figures(Judged):
    """The measurements of a run.

    open_*: transactions that were open then, by family.  restore: the command's output.
    """

    open_at_backup: dict[str, int] = field(default_factory=dict)
    open_at_loss: dict[str, int] = field(default_factory=dict)
    restore: str = ""


class Restore:
    """One loss of the log."""

    def __init__(self, world: World, options: Options, folder: Path, say: Say) -> None:
        self._world = world
        self._options = options
        self._say = say
        self._logs = folder / "logs"
        self._driver = Driver(world, self._logs / "driver.log")
        self._launcher = Launcher(world.bootstrap, options.rate, options.seed, self._logs)
        self._store = f"s3://{BUCKET}/run?endpoint={world.weed.endpoint}&region=us-east-1"
        records = Records()
        self._bank = pay_in(world.bootstrap, records)
        self._keeping = History("keeper", records)
        self._before = [History(each, records) for each in options.clients]

    def run(self) -> Figures:
        """Run it all."""
        watch = self._load(self._before, 0)
        keepers = [
            Keeper(self._world.bootstrap, self._options.clients[0], name, self._keeping)
            for name in ("before", "after")
        ]
        keepers[0].open()
        figures = Figures()
        backup_ms = now_ms()
        figures.open_at_backup = self._open_at(backup_ms)
        self._log("backup", "--log", self._world.database, "--object-store", self._store)
        watch.say("the log was copied")
        keepers[1].open()
        watch.wait(self._options.seconds)
        watch.say(watch.counts())
        figures.open_at_loss = self._open_at(self._lose_all(watch))
        figures.restore = self._restore()
        self._say(figures.restore)
        return self._after(Lost(backup_ms, now_ms()), figures, watch.families, keepers)

    def _open_at(self, at_ms: int) -> dict[str, int]:
        return {
            history.name: sum(is_open_at(each, at_ms) for each in history.transactions.values())
            for history in [self._keeping, *self._before]
        }

    def _load(self, histories: Sequence[History], life: int) -> HistoryWatch:
        self._driver.start()
        watch = HistoryWatch(
            self._world, self._launcher, histories, self._bank, self._driver, self._say, life=life
        )
        watch.wait_until_moving(now_ms())
        watch.wait(self._options.seconds)
        watch.say(watch.counts())
        return watch

    def _lose_all(self, watch: HistoryWatch) -> int:
        """Kill the gateways, and stop the clients; return the time before that."""
        lost_ms = now_ms()
        for number in self._world.gateways:
            self._world.kill_gateway(number)
        self._driver.stop()
        # Let clients read the last answers, so that they do not read them after the restore.
        time.sleep(READ_SECONDS)
        for family in watch.families:
            family.signal(signal.SIGSTOP)
        return lost_ms

    def _restore(self) -> str:
        """Make a new log, and start the gateways with it; return the command's output."""
        lost = self._world.database.rpartition("/")[2]
        self._world.use_log(self._world.postgres.new_database())
        self._world.postgres.sql(f'DROP DATABASE "{lost}" WITH (FORCE)')
        printed = self._log("restore", "--from", self._store, "--log", self._world.database)
        for number in self._world.gateways:
            self._world.start_gateway(number)
        self._driver = Driver(self._world, self._logs / "driver.log")
        return printed

    def _log(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tidegate_gateway", "log", *words],
            capture_output=True,
            text=True,
            timeout=RESTORE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"tidegate log {words[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def _after(
        self,
        lost: Lost,
        figures: Figures,
        old: Sequence[Family[History]],
        keepers: Sequence[Keeper],
    ) -> Figures:
        """Let new clients take over, then let the old ones continue; then judge."""
        records = Records()
        watch = self._load([History(each.name, records) for each in self._before], 1)
        try:
            for each in keepers:
                watch.problems += each.problems()
            for family in old:
                family.signal(signal.SIGCONT)
            watch.wait(ZOMBIE_SECONDS)
            for family in old:
                family.kill()
                forgive(family.ledger, lost)
            watch.wait_until_moving(now_ms())
            judged = watch.finish((), [self._keeping, *self._before])
        finally:
            watch.close()
            self._driver.stop()
        for name in (each.name for each in fields(Judged)):
            setattr(figures, name, getattr(judged, name))
        for anomaly in zombies(self._before, lost):
            figures.verdict.add(anomaly, is_apart=False)
        return figures


def restore_run(options: Options, folder: Path, say: Say) -> Figures:
    """Run it in an empty folder; its logs stay there."""
    with running_world(folder, more=NO_SCHEDULE) as world:
        create_topics(world.bootstrap, options.clients)
        return Restore(world, options, folder, say).run()


def _text(figures: Figures) -> str:
    opened = f"open at the copy: {figures.open_at_backup}, at the loss: {figures.open_at_loss}"
    return "\n".join([opened, "after the restore:", *summary(figures)])


def main(options: Options) -> Result:
    """Run it."""
    options = replace(options, clients=installed(options.clients, say, FAMILIES))
    with options.work_folder("restore") as folder:
        figures = restore_run(options, folder, say)
    return Result(figures.is_clean, _text(figures), figures)
