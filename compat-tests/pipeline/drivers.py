"""Processes of `tidegate pipeline run`, and ways to kill them and their child processes.

    driver (Python) -> JVM of Spark -> daemon (Python) -> workers (Python)

Processes are found by their parents' pids.  No process is ended by its name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from harness.places import HERE, ROOT
from harness.process import Process, spawn

POLL_SECONDS = 0.005
SIZES = ["--segment-bytes", "131072", "--rest-ms", "300", "--patience-ms", "1500"]
STOP_SECONDS = 60.0
ROUNDS = ("merged", "compacted")
DROPPED = "a unit was dropped"
# Occurs in each traceback of our code.
OURS = "tidegate_"


@dataclass(slots=True)
class Driver:
    """One driver process, with its own log."""

    process: Process
    kind: str
    is_stopped: bool = False

    @property
    def pid(self) -> int:
        """Return the process id of the driver itself."""
        return self.process.popen.pid

    @property
    def is_alive(self) -> bool:
        """Return whether the process exists; a stopped one (SIGSTOP) does."""
        return self.process.popen.poll() is None

    def events(self) -> list[dict[str, Any]]:
        """Return the events in the driver's log so far: each is a line of JSON."""
        return [each for each in map(event_of, self.log_text().splitlines()) if each]

    def log_text(self) -> str:
        """Return all output of the driver."""
        log = self.process.log
        return log.read_text(errors="replace") if log.exists() else ""

    def says(self, text: str, *, since: int = 0) -> bool:
        """Return whether the driver printed this text after its first `since` characters."""
        return text in self.log_text()[since:]

    def published(self) -> int:
        """Return how many units it published."""
        return sum(int(each.get("units", 0)) for each in self.events() if each["event"] in ROUNDS)

    def jvms(self) -> list[int]:
        """Return its Java processes: one, or none while there is no Spark."""
        return [each for each in children(self.pid) if _is_java(each)]

    def workers(self) -> list[int]:
        """Return Spark's Python workers."""
        daemons = [daemon for jvm in self.jvms() for daemon in children(jvm)]
        return [worker for daemon in daemons for worker in children(daemon)]

    def kill_machine(self) -> None:
        """kill -9 the driver and all processes below it at once."""
        everyone = [self.pid, *descendants(self.pid)]
        for pid in everyone:
            kill(pid)
        self.process.popen.wait(20)

    def kill_alone(self) -> None:
        """kill -9 the driver only.  The processes below it continue to write until they notice."""
        kill(self.pid)
        self.process.popen.wait(20)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the driver alone, if it runs."""
        self.process.popen.send_signal(number)

    def stop(self) -> None:
        """SIGTERM, and wait.  If the driver does not end, SIGABRT makes it print its stacks."""
        self.is_stopped = True
        self.signal(signal.SIGTERM)
        if not wait_until(lambda: not self.is_alive, STOP_SECONDS, pause=0.1):
            self.signal(signal.SIGABRT)
            wait_until(lambda: not self.is_alive, STOP_SECONDS, pause=0.1)
        self.process.kill()

    def tracebacks(self) -> list[str]:
        """Return the tracebacks that it printed, also those of killed workers of Spark."""
        _, *found = self.log_text().split("Traceback (most recent call last)")
        return [text.partition("\n{")[0][-1500:] for text in found]


class Drivers:
    """All drivers that were started, the ended ones included."""

    def __init__(
        self,
        data: Path,
        folder: Path,
        master: str,
        *,
        runner: str = "",
        sizes: Sequence[str] = SIZES,
    ) -> None:
        self._data = data
        self._folder = folder
        # A short path, since Spark has sockets there.  A killed driver leaves its files there.
        self._temporary = Path(tempfile.mkdtemp(prefix="tgp-"))
        self._master = ["--master", master] if master else []
        self._sizes = sizes
        self._runner = ["--runner", runner] if runner else []
        self._numbers = count(1)
        self._all: list[Driver] = []
        self.started: Counter[str] = Counter()

    def start(self, *, speculation: bool, small: bool) -> Driver:
        """Start one more."""
        program = (
            [sys.executable, str(HERE / "pipeline" / "small_tasks.py")]
            if small
            else [str(ROOT / "tidegate"), "pipeline", "run"]
        )
        options = ["--data", str(self._data), *self._master, *self._runner, *self._sizes]
        options += ["--interval-seconds", "0.2", "--log-level", "info"]
        options += ["--speculation"] if speculation else []
        kind = f"{'small' if small else 'usual'} tasks{', speculation' if speculation else ''}"
        log = self._folder / f"driver-{next(self._numbers)}.log"
        # At SIGABRT Python prints the stacks of all threads.
        environment = {"PYTHONFAULTHANDLER": "1", "TMPDIR": str(self._temporary)}
        driver = Driver(spawn([*program, *options], log, cwd=ROOT, env=environment), kind)
        self.started[kind] += 1
        self._all.append(driver)
        return driver

    @property
    def alive(self) -> list[Driver]:
        """Return those that run, the oldest first."""
        return [each for each in self._all if each.is_alive]

    def published(self) -> int:
        """Return how many units were published by all of them."""
        return sum(each.published() for each in self._all)

    def dropped(self) -> Counter[str]:
        """Return the reasons why drivers dropped units, with their counts."""
        events = (event for each in self._all for event in each.events())
        return Counter(each["reason"] for each in events if each["event"] == DROPPED)

    def said(self, *texts: str) -> dict[str, int]:
        """Return how often each text occurs in the logs of all drivers."""
        return {text: sum(self._lines(text)) for text in texts}

    def troubles(self) -> list[str]:
        """Return the bad exits of drivers that were not killed, and uncaught errors."""
        found: list[str] = []
        for each in self._all:
            status = each.process.popen.poll()
            if status not in (None, 0, -signal.SIGKILL) or (each.is_stopped and status != 0):
                found.append(f"{each.process.log.name} ended with {status}")
            found += [text for text in each.tracebacks() if OURS in text]
        return found

    def _lines(self, text: str) -> Iterator[int]:
        return (each.log_text().count(text) for each in self._all)

    def stop_all(self) -> None:
        """Stop all running drivers, and remove Spark's files; this must be the last call."""
        for each in self.alive:
            each.signal(signal.SIGCONT)
            each.stop()
        shutil.rmtree(self._temporary, ignore_errors=True)


def wait_until(done: Callable[[], bool], seconds: float, *, pause: float = POLL_SECONDS) -> bool:
    """Wait for a condition; return whether it held in time."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def kill(pid: int) -> bool:
    """kill -9; return whether the process existed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def children(pid: int) -> list[int]:
    """Return the processes that a process started and that run."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def event_of(line: str) -> dict[str, Any]:
    """Return the event in a line of a log; {} if the line is not complete JSON."""
    try:
        event: Any = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) and "event" in event else {}


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").resolve().name == "java"
    except OSError:
        return False
