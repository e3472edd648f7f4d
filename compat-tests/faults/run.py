"""Three zones under load while gateways, log, store and the ways between them fail.

    PYTHONPATH=compat-tests .venv/bin/python compat-tests/faults/run.py --minutes 30 --seed 1

One fault at a time, drawn by seed; the next one comes after all partitions move again and some calm
seconds.  Then every record is read and compared with what the clients were told.  Prints a line a
fault, figures per kind, and ends with 1 when something was lost, doubled, out of order or stuck.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from crash.ledger import Verdict
from harness.places import WORK

from faults.clients import (
    FAMILIES,
    PARTITIONS,
    Family,
    Load,
    create_topic,
    installed,
    start_families,
    sweep,
)
from faults.ledger import judge_all
from faults.plan import KINDS, Fault, draw
from faults.relay import Mode
from faults.report import table
from faults.stalls import Happened, KindFigures, by_kind, stall
from faults.world import World, running_world

CALM_SECONDS = (4.0, 9.0)
RECOVERY_SECONDS = 90.0
DRAIN_EXIT = 0
LOOK_SECONDS = 0.05
SAY_EVERY_SECONDS = 5.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked for.  rate: records a second of each family."""

    minutes: float
    seed: int
    clients: Sequence[str]
    kinds: Sequence[str] = tuple(KINDS)
    rate: int = 150
    calm_seconds: tuple[float, float] = CALM_SECONDS
    most_faults: int | None = None


@dataclass(slots=True)
class Figures:
    """What a run measured; kinds: by kind of fault."""

    seed: int
    minutes: float
    acknowledged: dict[str, int] = field(default_factory=dict)
    consumed: dict[str, int] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    records: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)
    kinds: dict[str, KindFigures] = field(default_factory=dict)
    happened: list[Happened] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return self.verdict.is_clean and not self.problems


class FaultRun:
    """A world that is hurt, and the clients in it."""

    def __init__(self, world: World, families: list[Family], options: Options, say: Say) -> None:
        self._world = world
        self._families = families
        self._options = options
        self._say = say
        self._random = random.Random(options.seed)
        self._happened: list[Happened] = []
        self._problems: list[str] = []

    def run(self) -> Figures:
        """Let faults happen, wait until all is well, read everything and judge."""
        began = time.monotonic()
        end = began + self._options.minutes * 60
        self._wait_until_moving(_now_ms())
        faults = draw(self._options.seed, len(self._world.gateways), self._options.kinds)
        in_time = takewhile(lambda _: time.monotonic() < end, faults)
        for fault in islice(in_time, self._options.most_faults):
            self._wait(self._random.uniform(*self._options.calm_seconds))
            self._one(fault)
        self._wait(CALM_SECONDS[0])
        if self._happened:
            self._happened[-1].until_ms = _now_ms()
        for family in self._families:
            family.flush()
        self._wait_for(self._all_done, "some records had no answer")
        return self._figures((time.monotonic() - began) / 60)

    def _one(self, fault: Fault) -> None:
        happened = Happened(fault, _now_ms(), 0)
        if self._happened:
            self._happened[-1].until_ms = happened.begin_ms
        self._happened.append(happened)
        try:
            _DOERS[fault.kind.split()[0].rstrip(",")](self, fault)
        finally:
            happened.end_ms = _now_ms()
        self._wait_until_moving(happened.end_ms)
        happened.until_ms = _now_ms()
        stalls = [
            f"{each.name} {stall(each.ledger.acknowledged_at, happened)}"
            f"/{stall(each.ledger.consumed_at, happened)}"
            for each in self._families
        ]
        lasted = (happened.end_ms - happened.begin_ms) / 1000
        self._say(f"{_clock()} {fault}: {lasted:.1f} s; stalls in ms: {', '.join(stalls)}")
        self._say(f"{_clock()} {self._counts()}")

    def _kill(self, fault: Fault) -> None:
        self._world.kill_gateway(fault.gateway)
        self._wait(fault.seconds)
        self._world.start_gateway(fault.gateway)

    def _pause(self, fault: Fault) -> None:
        gateway = self._world.gateways[fault.gateway]
        gateway.signal(signal.SIGSTOP)
        self._wait(fault.seconds)
        gateway.signal(signal.SIGCONT)

    def _drain(self, fault: Fault) -> None:
        code = self._world.drain_gateway(fault.gateway)
        if code != DRAIN_EXIT:
            self._problems.append(f"gateway {fault.gateway} drained with exit code {code}")
        self._world.start_gateway(fault.gateway)

    def _partition(self, fault: Fault) -> None:
        link = f"{fault.kind.split()[1]}-{fault.gateway}"
        self._world.relay.turn(link, fault.mode)
        self._wait(fault.seconds)
        self._world.relay.turn(link, Mode.PASS)

    def _postgres(self, fault: Fault) -> None:
        how = signal.SIGKILL if fault.kind.endswith("kill") else signal.SIGINT
        self._world.turn_all("log", Mode.REFUSE)
        self._world.restart_postgres(how)
        self._world.turn_all("log", Mode.PASS)

    def _seaweed(self, fault: Fault) -> None:
        how = signal.SIGKILL if fault.kind.endswith("kill") else signal.SIGTERM
        self._world.restart_weed(how)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, LOOK_SECONDS))

    def _check(self) -> None:
        for family in self._families:
            family.check()
        for gateway in self._world.gateways.values():
            process = gateway.process
            if process is not None and process.popen.poll() not in (None, 0, -signal.SIGKILL):
                code = process.popen.returncode
                raise RuntimeError(f"gateway {gateway.number} ended by itself with {code}")

    def _wait_until_moving(self, since_ms: int) -> None:
        """Every family goes on in every partition."""
        self._wait_for(lambda: not self._stuck(since_ms), "it does not go on")
        stuck = self._stuck(since_ms)
        if stuck:
            self._say(f"{_clock()} stuck: {stuck}")

    def _stuck(self, since_ms: int) -> list[str]:
        stuck: list[str] = []
        for family in self._families:
            for what in ("acknowledged_at", "consumed_at"):
                times = getattr(family.ledger, what)
                where = [p for p in range(PARTITIONS) if not _since(times.get(p), since_ms)]
                stuck += [f"{family.name} {what} {where}"] if where else []
        return stuck

    def _all_done(self) -> bool:
        return all(each.ledger.is_done for each in self._families)

    def _wait_for(self, is_done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS
        said_at = time.monotonic()
        while not is_done():
            self._check()
            now = time.monotonic()
            if now > deadline:
                self._problems.append(f"{_clock()} {otherwise} in {RECOVERY_SECONDS:.0f} s")
                return
            if now - said_at > SAY_EVERY_SECONDS:
                said_at = now
                self._say(f"{_clock()} waiting; {self._counts()}")
            time.sleep(LOOK_SECONDS)

    def _counts(self) -> str:
        return ", ".join(
            f"{each.name} {each.ledger.producer.count} acknowledged {each.ledger.consumed} consumed"
            for each in self._families
        )

    def _figures(self, minutes: float) -> Figures:
        found = sweep(self._world.bootstrap)
        ends = {partition: len(records) for partition, records in found.items()}
        ledgers = [each.ledger for each in self._families]
        self._wait_for(lambda: not any(each.behind(ends) for each in ledgers), "a group is behind")
        for family in self._families:
            family.close()
            family.ledger.compare_content(found)
            self._problems += family.ledger.problems
        return Figures(
            seed=self._options.seed,
            minutes=round(minutes, 1),
            acknowledged={each.name: each.producer.count for each in ledgers},
            consumed={each.name: each.consumed for each in ledgers},
            commits={each.name: each.commits for each in ledgers},
            failed={each.name: len(each.producer.failed) for each in ledgers},
            records=sum(ends.values()),
            verdict=judge_all(ledgers, found),
            problems=self._problems,
            kinds=by_kind(self._happened, ledgers),
            happened=self._happened,
        )


_DOERS: dict[str, Callable[[FaultRun, Fault], None]] = {
    "kill": FaultRun._kill,
    "pause": FaultRun._pause,
    "drain": FaultRun._drain,
    "partition": FaultRun._partition,
    "postgres": FaultRun._postgres,
    "seaweed": FaultRun._seaweed,
}


def _since(times: Sequence[int] | None, since_ms: int) -> bool:
    return bool(times) and times[-1] > since_ms  # type: ignore[index]  # it is not empty


def _now_ms() -> int:
    """The clock that the clients' lines carry."""
    return int(time.time() * 1000)


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def fault_run(options: Options, folder: Path, say: Say) -> Figures:
    """Run it in a folder that is empty; what was logged stays there."""
    with running_world(folder) as world:
        create_topic(world.bootstrap)
        load = Load(world.bootstrap, options.rate)
        families = start_families(options.clients, load, folder / "logs")
        try:
            return FaultRun(world, families, options, say).run()
        finally:
            for family in families:
                with suppress(OSError, ValueError):
                    family.close()


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
