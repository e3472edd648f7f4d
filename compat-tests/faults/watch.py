"""Clients under load in a world that is hurt: waits for them, and judges them at the end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crash.ledger import Verdict

from faults.clients import PARTITIONS, Family, sweep
from faults.ledger import judge_all
from faults.world import World

RECOVERY_SECONDS = 90.0
LOOK_SECONDS = 0.05
SAY_EVERY_SECONDS = 5.0
Say = Callable[[str], None]


@dataclass(slots=True)
class Judged:
    """What all clients did, and what is wrong with it.  records: that lie in the topic."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    consumed: dict[str, int] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    records: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return self.verdict.is_clean and not self.problems


class Watch:
    """The clients of a run.  problems: what went wrong so far, for people."""

    def __init__(self, world: World, families: list[Family], say: Say) -> None:
        self._world = world
        self.families = families
        self._say = say
        self.problems: list[str] = []

    def say(self, text: str) -> None:
        """Print a line with the time in front."""
        self._say(f"{clock()} {text}")

    def wait(self, seconds: float) -> None:
        """Wait; end early if a process ends by itself."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, LOOK_SECONDS))

    def wait_until_moving(self, since_ms: int) -> None:
        """Every family goes on in every partition."""
        self._wait_for(lambda: not self._stuck(since_ms), "it does not go on")
        stuck = self._stuck(since_ms)
        if stuck:
            self.say(f"stuck: {stuck}")

    def counts(self) -> str:
        """Return how far the clients are."""
        return ", ".join(
            f"{each.name} {each.ledger.producer.count} acknowledged {each.ledger.consumed} consumed"
            for each in self.families
        )

    def finish(self) -> Judged:
        """End the clients, read all records and judge."""
        for family in self.families:
            family.flush()
        self._wait_for(self._all_done, "some records had no answer")
        found = sweep(self._world.bootstrap)
        ends = {partition: len(records) for partition, records in found.items()}
        ledgers = [each.ledger for each in self.families]
        self._wait_for(lambda: not any(each.behind(ends) for each in ledgers), "a group is behind")
        for family in self.families:
            family.close()
            family.ledger.compare_content(found)
            self.problems += family.ledger.problems
        return Judged(
            acknowledged={each.name: each.producer.count for each in ledgers},
            consumed={each.name: each.consumed for each in ledgers},
            commits={each.name: each.commits for each in ledgers},
            failed={each.name: len(each.producer.failed) for each in ledgers},
            records=sum(ends.values()),
            verdict=judge_all(ledgers, found),
            problems=self.problems,
        )

    def _check(self) -> None:
        for family in self.families:
            family.check()
        for gateway in self._world.gateways.values():
            process = gateway.process
            if process is not None and process.popen.poll() not in (None, 0, -signal.SIGKILL):
                code = process.popen.returncode
                raise RuntimeError(f"gateway {gateway.number} ended by itself with {code}")

    def _stuck(self, since_ms: int) -> list[str]:
        stuck: list[str] = []
        for family in self.families:
            for what in ("acknowledged_at", "consumed_at"):
                times = getattr(family.ledger, what)
                where = [p for p in range(PARTITIONS) if not _since(times.get(p), since_ms)]
                stuck += [f"{family.name} {what} {where}"] if where else []
        return stuck

    def _all_done(self) -> bool:
        return all(each.ledger.is_done for each in self.families)

    def _wait_for(self, is_done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS
        said_at = time.monotonic()
        while not is_done():
            self._check()
            now = time.monotonic()
            if now > deadline:
                self.problems.append(f"{clock()} {otherwise} in {RECOVERY_SECONDS:.0f} s")
                return
            if now - said_at > SAY_EVERY_SECONDS:
                said_at = now
                self.say(f"waiting; {self.counts()}")
            time.sleep(LOOK_SECONDS)


def _since(times: Sequence[int] | None, since_ms: int) -> bool:
    return bool(times) and times[-1] > since_ms  # type: ignore[index]  # it is not empty


def now_ms() -> int:
    """Return the time of the clock that the clients' lines carry."""
    return int(time.time() * 1000)


def clock() -> str:
    """Return the time of day."""
    return time.strftime("%H:%M:%S")
