"""Child processes with an owner.

Their output goes to a file, and all waits have a deadline.  The owner stops each by its handle.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

POLL_SECONDS = 0.1
PORTS = range(12_000, 22_000)


# The words of a command; the first one is the program.
Command = Sequence[str | Path]


class StartFailed(Exception):
    """A process did not get ready.  Show the message, which ends with the last lines of the log."""


@dataclass(slots=True)
class Process:
    """One child process in a process group of its own, its output in `log`."""

    popen: subprocess.Popen[bytes]
    log: Path

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait for `ready()`.

        Raises:
          StartFailed: the process ended first, or `seconds` went by.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if self.popen.poll() is not None:
                raise StartFailed(f"ended with {self.popen.returncode}\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise StartFailed(f"not ready after {seconds} s\n{tail(self.log)}")
            time.sleep(POLL_SECONDS)

    def stop(self, seconds: float = 20.0) -> int:
        """SIGTERM, then SIGKILL to the group after `seconds`; return the exit status."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                return self.popen.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.popen.wait(seconds)

    def kill(self) -> None:
        """kill -9 the process and its children, and wait for it."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(20)


def spawn(
    command: Command,
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Start `command`, and append its output to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        popen = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    return Process(popen, log)


def run_to_end(
    command: Command,
    log: Path,
    *,
    seconds: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int | None:
    """Run `command` with its output in `log` (emptied first); None when the time ran out."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    process = spawn(command, log, cwd=cwd, env=env)
    try:
        return process.popen.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()


def tail(log: Path, characters: int = 3000) -> str:
    """The end of a log, for messages."""
    return log.read_text(errors="replace")[-characters:] if log.exists() else ""


WORKERS: Final = 4
_given: Final[set[int]] = set()
_WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS


def free_ports(count: int, *, partner: int = 0) -> list[int]:
    """Return ports of the loopback on which nothing listens now, nor on port + partner.

    A server binds them later.  So no port is returned twice, and each of up to WORKERS processes
    that run tests has other ports.  The ports are below those that the kernel gives to outgoing
    connections.  So a port is still free when a stopped process starts again.
    """
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            port = random.choice(PORTS) // WORKERS * WORKERS + _WORKER
            pair = {port, port + partner}
            if not pair & _given and all(_is_bound(stack, each) for each in pair):
                found.append(port)
                _given.update(pair)
    return found


def _is_bound(stack: ExitStack, port: int) -> bool:
    holder = stack.enter_context(socket.socket())
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
