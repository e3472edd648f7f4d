"""A Kafka Streams application with exactly_once_v2 while gateways and instances are hurt.

    compat-tests/run streams --minutes 10

Three gateways in three zones on PostgreSQL and SeaweedFS, a driver of the pipeline, and three
instances of java/CountingApp.java, each with state files of its own.  Every --every seconds a
gateway is killed.  Every --every-instance seconds an instance is killed, or killed with its files
removed, or stopped for longer than its transactions may last.  At the end the committed counts of
each key must be 1, 2, ... up to the number of its inputs; then all instances start without files,
and their stores must come back.  Prints figures; exit status 1 if a promise is broken.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from faults.attendance import Say, clock, now_ms
from faults.driver import Driver
from faults.stalls import longest_gap
from faults.world import World, running_world
from harness import install
from runner.options import option
from runner.result import Result, say
from runner.shared import Kept, Seeded

from exactly_once.counting import INSTANCES, PARTITIONS, Counting
from exactly_once.ended import ended_transactions
from exactly_once.hurting import Hurting
from exactly_once.kills import Blow, blows
from exactly_once.restores import RUNNING, AppLife, unrestored
from exactly_once.streams_report import Figures, table
from exactly_once.topics import create_topics

KINDS: Final = ("kill", "pause", "wipe")
PAUSE_MORE_SECONDS: Final = 3.0
STUCK_SECONDS: Final = 180.0


@dataclass(frozen=True)
class Options(Seeded, Kept):
    """The options.  If a time between faults is 0, there are no faults of its kind."""

    minutes: float = 10.0
    rate: int = option(200, "inputs a second")
    every_seconds: float = option(10.0, "seconds between gateways killed", flag="--every")
    instance_seconds: float = option(20.0, "and instances hurt", flag="--every-instance")
    timeout_ms: int = option(10_000, "of a transaction")


class StreamsRun:
    """The application, and the faults of it and of its world."""

    def __init__(self, world: World, options: Options, folder: Path, say: Say) -> None:
        self._world = world
        self._options = options
        self._folder = folder
        self._say = say
        self._hurting = Hurting()
        self._figures = Figures(options.seed)
        bootstrap = world.bootstrap
        app = Counting("counting", "words", "counts", folder, options.timeout_ms)
        create_topics(bootstrap, {app.source: PARTITIONS, app.target: PARTITIONS})
        self._app = app
        self._writer = app.writer(bootstrap, options.rate, options.seed)
        self._reader = app.reader(bootstrap)
        self._driver = Driver(world, folder / "logs" / "driver.log")
        self._instances = [app.instance(bootstrap, each) for each in range(INSTANCES)]

    def run(self) -> Figures:
        """Do all of it."""
        began = time.monotonic()
        self._driver.start(Path(sys.executable))
        self._writer.start()
        self._reader.start()
        for each in self._instances:
            each.start()
        try:
            self._hurt_until(began + self._options.minutes * 60)
            self._writer.finish()
            self._wait_for_output()
            self._figures.minutes = round((time.monotonic() - began) / 60, 1)
            self._judge_lives()
        finally:
            self._hurting.end()
            self._reader.finish()
            for each in self._instances:
                each.close()
        bootstrap = self._world.bootstrap
        inputs = self._app.judge(bootstrap, self._figures, self._writer, self._reader)
        self._add_restores(self._app.restored(bootstrap, inputs, self._figures))
        self._driver.check()
        self._driver.stop()
        log = self._world.gateways[1].texts["metadata.log"]
        kept = self._folder / "logs" / "transactions.txt"
        self._figures.transactions = ended_transactions(log, kept)
        return self._figures

    def _hurt_until(self, end: float) -> None:
        self._wait(lambda: self._reader.total > 0, "the application did not begin")
        options = self._options
        if options.every_seconds:
            plan = blows(f"{options.seed} gateways", (1, 2, 3), options.every_seconds)
            self._hurting.begin("gateway", plan, self._kill_gateway)
        if options.instance_seconds:
            plan = blows(f"{options.seed} app", range(INSTANCES), options.instance_seconds, KINDS)
            self._hurting.begin("instance", plan, self._hurt_instance)
        said_at = time.monotonic()
        while time.monotonic() < end:
            self._look()
            if time.monotonic() - said_at > 10:
                said_at = time.monotonic()
                self._note(self._progress())
            time.sleep(0.2)
        self._hurting.end()
        self._hurting.check()

    def _progress(self) -> str:
        states = ", ".join(each.lives[-1].state for each in self._instances)
        return (
            f"{self._writer.written} written, {self._reader.total} counted,"
            f" {len(self._hurting.dealt)} blows; {states}"
        )

    def _kill_gateway(self, blow: Blow, stop: threading.Event) -> None:
        self._world.kill_gateway(blow.who)
        stop.wait(blow.seconds)
        self._world.start_gateway(blow.who)

    def _hurt_instance(self, blow: Blow, stop: threading.Event) -> None:
        instance = self._instances[blow.who]
        if blow.how == "pause":
            instance.signal(signal.SIGSTOP)
            stop.wait(self._options.timeout_ms / 1000 + PAUSE_MORE_SECONDS)
            instance.signal(signal.SIGCONT)
        elif blow.how == "wipe":
            instance.kill(lambda: shutil.rmtree(self._app.files(blow.who), ignore_errors=True))
        else:
            instance.kill()

    def _look(self) -> None:
        self._hurting.check()
        self._driver.check()
        for each in self._instances:
            each.keep()

    def _wait(self, is_done: Callable[[], bool], otherwise: str) -> None:
        """Wait as long as the output grows."""
        total, grew_at = self._reader.total, time.monotonic()
        while not is_done():
            self._look()
            now = time.monotonic()
            if self._reader.total != total:
                total, grew_at = self._reader.total, now
            if now - grew_at > STUCK_SECONDS:
                self._figures.problems.append(f"{clock()} {otherwise}; {self._progress()}")
                return
            time.sleep(0.2)

    def _wait_for_output(self) -> None:
        self._wait(
            lambda: (
                self._reader.total >= self._writer.written
                and all(each.lives[-1].state == RUNNING for each in self._instances)
            ),
            "the output does not reach the input",
        )
        self._note(self._progress())

    def _judge_lives(self) -> None:
        figures = self._figures
        figures.gateways_killed = len(self._hurting.times("gateway"))
        figures.gateway_down_max_ms = self._hurting.longest_ms("gateway")
        figures.instances_hurt = Counter(
            each.how for each in self._hurting.dealt if each.target == "instance"
        )
        lives = [life for each in self._instances for life in each.lives]
        figures.lives = len(lives)
        figures.ended_by_themselves = sum(each.failed for each in lives)
        figures.errors = Counter(error for each in lives for error in each.errors)
        self._add_restores(lives)
        times = self._reader.times
        figures.longest_stall_ms = longest_gap(times, times[0], times[-1]) if times else 0
        self._note(f"{figures.lives} lives, errors {dict(figures.errors)}")

    def _add_restores(self, lives: list[AppLife]) -> None:
        figures = self._figures
        figures.problems += unrestored(lives, now_ms())
        restored = [count for each in lives for count in each.restored]
        figures.restores += len(restored)
        figures.restored_records += sum(restored)
        longest = max(each.longest_restore_ms for each in lives)
        figures.longest_restore_ms = max(figures.longest_restore_ms, longest)

    def _note(self, text: str) -> None:
        self._say(f"{clock()} {text}")


def streams_run(options: Options, folder: Path, say: Say) -> Figures:
    """Run it in an empty folder; its logs stay there."""
    with running_world(folder) as world:
        return StreamsRun(world, options, folder, say).run()


def main(options: Options) -> Result:
    """Run it."""
    install.counting_app()  # fail at once if a tool is missing
    with options.work_folder("streams") as folder:
        figures = streams_run(options, folder, say)
    return Result(figures.is_clean, table(figures), figures)
