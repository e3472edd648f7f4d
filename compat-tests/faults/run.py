"""Three zones under load while gateways, log, store and the links between them fail.

    compat-tests/run faults --minutes 30 --seed 1

One fault comes at a time, drawn by seed.  The next one comes after all partitions make progress
again, and some calm seconds.  At the end every record is read and compared with the clients'
acknowledgements.  The program prints a line for each fault, and figures for each kind.  The exit
status is 1 if a record was lost, doubled or out of order, or if a client was stuck.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, ClassVar

from runner.options import option, unasked
from runner.result import Result, say
from runner.shared import Kept, Seeded

from faults.attendance import Attendance, now_ms
from faults.clients import FAMILIES, Load, create_topic, installed, start_families
from faults.plan import KINDS, Fault, draw
from faults.relay import Mode
from faults.report import Figures, table
from faults.stalls import Happened, by_kind, stall
from faults.watch import Judged, Say, Watch
from faults.world import World, running_world

CALM_SECONDS = (4.0, 9.0)
DRAIN_EXIT = 0


@dataclass(frozen=True)
class Options(Seeded, Kept):
    """The options."""

    minutes: float = 30.0
    clients: Sequence[str] = option(tuple(FAMILIES), "by comma", choices=FAMILIES)
    kinds: Sequence[str] = option(tuple(KINDS), "of faults, by semicolon", separator=";")
    rate: int = option(150, "records a second of each family")
    calm_seconds: tuple[float, float] = unasked(CALM_SECONDS)
    most_faults: int | None = unasked(None)


class FaultRun:
    """A run: three zones, their clients, and faults."""

    def __init__(self, world: World, watch: Attendance, options: Options) -> None:
        self._world = world
        self._watch = watch
        self._options = options
        self._random = random.Random(options.seed)
        self._happened: list[Happened] = []

    def run(self) -> list[Happened]:
        """Draw faults until the time is up, or `most_faults` have happened.

        After each fault wait until all clients make progress.
        """
        end = time.monotonic() + self._options.minutes * 60
        faults = draw(self._options.seed, len(self._world.gateways), self._options.kinds)
        in_time = takewhile(lambda _: time.monotonic() < end, faults)
        return self.suffer(islice(in_time, self._options.most_faults))

    def suffer(self, faults: Iterable[Fault]) -> list[Happened]:
        """Let these faults happen; after each wait until all clients make progress."""
        self._watch.wait_until_moving(now_ms())
        for fault in faults:
            self._watch.wait(self._random.uniform(*self._options.calm_seconds))
            self._one(fault)
        self._watch.wait(CALM_SECONDS[0])
        if self._happened:
            self._happened[-1].until_ms = now_ms()
        return self._happened

    def _one(self, fault: Fault) -> None:
        happened = Happened(fault, now_ms(), 0)
        if self._happened:
            self._happened[-1].until_ms = happened.begin_ms
        self._happened.append(happened)
        try:
            self.doers[fault.kind.split()[0].rstrip(",")](self, fault)
        finally:
            happened.end_ms = now_ms()
        self._watch.wait_until_moving(happened.end_ms)
        happened.until_ms = now_ms()
        stalls = [
            f"{each.name} {stall(each.acknowledged_at, happened)}"
            f"/{stall(each.consumed_at, happened)}"
            for each in self._watch.ledgers
        ]
        lasted = (happened.end_ms - happened.begin_ms) / 1000
        self._watch.say(f"{fault}: {lasted:.1f} s; stalls in ms: {', '.join(stalls)}")
        self._watch.say(self._watch.counts())

    def _kill(self, fault: Fault) -> None:
        self._world.kill_gateway(fault.gateway)
        self._watch.wait(fault.seconds)
        self._world.start_gateway(fault.gateway)

    def _pause(self, fault: Fault) -> None:
        gateway = self._world.gateways[fault.gateway]
        gateway.signal(signal.SIGSTOP)
        self._watch.wait(fault.seconds)
        gateway.signal(signal.SIGCONT)

    def _drain(self, fault: Fault) -> None:
        code = self._world.drain_gateway(fault.gateway)
        if code != DRAIN_EXIT:
            self._watch.problems.append(f"gateway {fault.gateway} drained with exit code {code}")
        self._world.start_gateway(fault.gateway)

    def _partition(self, fault: Fault) -> None:
        link = f"{fault.kind.split()[1]}-{fault.gateway}"
        self._world.relay.turn(link, fault.mode)
        self._watch.wait(fault.seconds)
        self._world.relay.turn(link, Mode.PASS)

    def _postgres(self, fault: Fault) -> None:
        how = signal.SIGKILL if fault.kind.endswith("kill") else signal.SIGINT
        self._world.turn_all("log", Mode.REFUSE)
        self._world.restart_postgres(how)
        self._world.turn_all("log", Mode.PASS)

    def _seaweed(self, fault: Fault) -> None:
        how = signal.SIGKILL if fault.kind.endswith("kill") else signal.SIGTERM
        self._world.restart_weed(how)

    def _ends(self, fault: Fault) -> None:
        is_late = fault.kind.endswith("late")
        mode = Mode.LATE_ENDS if is_late else Mode.UNANSWERED_ENDS
        self._turn_all("clients", mode, fault.seconds)

    def _log(self, fault: Fault) -> None:
        self._turn_all("log", Mode.REFUSE, fault.seconds)

    def _store(self, fault: Fault) -> None:
        self._turn_all("store", Mode.REFUSE, fault.seconds)

    def _turn_all(self, what: str, mode: Mode, seconds: float) -> None:
        self._world.turn_all(what, mode)
        self._watch.wait(seconds)
        self._world.turn_all(what, Mode.PASS)

    doers: ClassVar[Mapping[str, Callable[[Any, Fault], None]]] = {
        "kill": _kill,
        "pause": _pause,
        "drain": _drain,
        "partition": _partition,
        "postgres": _postgres,
        "seaweed": _seaweed,
        "ends": _ends,
        "log": _log,
        "store": _store,
    }


def fault_run(options: Options, folder: Path, say: Say) -> Figures:
    """Run it in an empty folder; its logs stay there."""
    with running_world(folder) as world:
        create_topic(world.bootstrap)
        load = Load(world.bootstrap, options.rate)
        families = start_families(options.clients, load, folder / "logs")
        try:
            return _figures(world, Watch(world, families, say), options)
        finally:
            for family in families:
                with suppress(OSError, ValueError):
                    family.close()


def _figures(world: World, watch: Watch, options: Options) -> Figures:
    """Draw faults, then read everything and judge."""
    began = time.monotonic()
    happened = FaultRun(world, watch, options).run()
    minutes = round((time.monotonic() - began) / 60, 1)
    judged = watch.finish()
    return Figures(
        **{each.name: getattr(judged, each.name) for each in fields(Judged)},
        seed=options.seed,
        minutes=minutes,
        kinds=by_kind(happened, watch.ledgers),
        happened=happened,
    )


def main(options: Options) -> Result:
    """Run it."""
    options = replace(options, clients=installed(options.clients, say))
    with options.work_folder("faults") as folder:
        figures = fault_run(options, folder, say)
    return Result(figures.is_clean, table(figures), figures)
