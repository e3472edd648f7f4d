"""Three zones under load while gateways, log, store and the ways between them fail.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/faults/run.py --minutes 30 --seed 1

One fault at a time, drawn by seed; the next one comes after all partitions move again and some calm
seconds.  Then every record is read and compared with the clients' acknowledgements.  Prints a line
a fault, figures per kind, and ends with 1 when something was lost, doubled, out of order or stuck.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.places import WORK

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


@dataclass(frozen=True, slots=True)
class Options:
    """The options.  rate: records a second of each family."""

    minutes: float
    seed: int
    clients: Sequence[str]
    kinds: Sequence[str] = tuple(KINDS)
    rate: int = 150
    calm_seconds: tuple[float, float] = CALM_SECONDS
    most_faults: int | None = None


class FaultRun:
    """A world that is hurt, and the clients in it."""

    def __init__(self, world: World, watch: Attendance, options: Options) -> None:
        self._world = world
        self._watch = watch
        self._options = options
        self._random = random.Random(options.seed)
        self._happened: list[Happened] = []

    def run(self) -> list[Happened]:
        """Let faults happen, and wait until all is well after each."""
        end = time.monotonic() + self._options.minutes * 60
        faults = draw(self._options.seed, len(self._world.gateways), self._options.kinds)
        in_time = takewhile(lambda _: time.monotonic() < end, faults)
        return self.suffer(islice(in_time, self._options.most_faults))

    def suffer(self, faults: Iterable[Fault]) -> list[Happened]:
        """Let these faults happen, and wait until all is well after each."""
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
    """Run it in a folder that is empty; what was logged stays there."""
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
    """Let faults happen, then read everything and judge."""
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


def as_json(figures: Figures) -> str:
    """Return all figures as one JSON object."""
    return msgspec.json.format(msgspec.json.encode(figures)).decode()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="faults under load, in three zones")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", default=",".join(FAMILIES), help="by comma")
    parser.add_argument("--kinds", default=None, help="kinds of faults, by semicolon")
    parser.add_argument("--rate", type=int, default=150, help="records a second of each family")
    parser.add_argument("--folder", type=Path, help="where logs and data stay (an empty one)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    given = parser.parse_args()
    say = partial(print, flush=True, file=sys.stderr if given.json else sys.stdout)
    options = Options(
        given.minutes,
        given.seed,
        installed(given.clients.split(","), say),
        given.kinds.split(";") if given.kinds else tuple(KINDS),
        given.rate,
    )
    WORK.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=WORK, prefix="faults-") as made:
        figures = fault_run(options, (given.folder or Path(made)).absolute(), say)
    print(as_json(figures) if given.json else table(figures))
    return 0 if figures.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
