"""Waits for clients under load and faults, and notices if a process ends by itself."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from faults.ledger import Progress
from faults.world import World

RECOVERY_SECONDS = 90.0
LOOK_SECONDS = 0.05
SAY_EVERY_SECONDS = 5.0
Say = Callable[[str], None]


class Attendance(ABC):
    """The clients of a run.

    problems: the errors so far, as texts.  ledgers: the progress of all families.
    """

    ledgers: Sequence[Progress]

    def __init__(self, world: World, say: Say) -> None:
        self._world = world
        self._say = say
        self.problems: list[str] = []

    @abstractmethod
    def counts(self) -> str:
        """Return how far the clients are, for people."""

    @abstractmethod
    def stuck(self, since_ms: int) -> list[str]:
        """Return the clients or partitions that made no progress since then."""

    @abstractmethod
    def check_clients(self) -> None:
        """Raise if a client ended by itself."""

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
        """Wait until every family makes progress in every partition."""
        self.wait_for(lambda: not self.stuck(since_ms), "it does not go on")
        stuck = self.stuck(since_ms)
        if stuck:
            self.say(f"stuck: {stuck}")

    def wait_for(self, is_done: Callable[[], bool], otherwise: str) -> None:
        """Wait until is_done(); if this takes too long, note `otherwise` as a problem."""
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

    def _check(self) -> None:
        self.check_clients()
        for gateway in self._world.gateways.values():
            process = gateway.process
            if process is not None and process.popen.poll() not in (None, 0, -signal.SIGKILL):
                code = process.popen.returncode
                raise RuntimeError(f"gateway {gateway.number} ended by itself with {code}")


def since(times: Sequence[int] | None, since_ms: int) -> bool:
    """Return whether the last of these rising times is after since_ms."""
    return times is not None and len(times) > 0 and times[-1] > since_ms


def now_ms() -> int:
    """Return the time of the clock that the clients' lines carry."""
    return int(time.time() * 1000)


def clock() -> str:
    """Return the time of day."""
    return time.strftime("%H:%M:%S")
