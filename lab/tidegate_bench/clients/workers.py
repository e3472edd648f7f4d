"""Starts client processes, releases them at the same moment, and takes their results."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, cast

from ..errors import BenchError
from .spec import Spec, Told, to_json

READY_SECONDS = 60.0
END_SECONDS = 120.0  # beyond the client's own time limit


@dataclass(slots=True)
class Worker:
    """One client process; errors: a file with its standard error."""

    popen: subprocess.Popen[str]
    errors: IO[bytes]

    def wait_until_ready(self) -> None:
        """Wait until the client is connected.

        Raises:
          BenchError: it ended, or took too long.
        """
        _ = self._line(READY_SECONDS)

    def go(self) -> None:
        """Let it work."""
        stdin = cast(IO[str], self.popen.stdin)
        stdin.write("go\n")
        stdin.flush()

    def told(self) -> Told:
        """Wait for its end; return its result.

        Raises:
          BenchError: it failed, or took too long.
        """
        return cast(Told, json.loads(self._line(END_SECONDS)))

    def _line(self, seconds: float) -> str:
        stdout = cast(IO[str], self.popen.stdout)
        ready, _, _ = select.select([stdout], [], [], seconds)
        line = stdout.readline() if ready else ""
        if line:
            return line
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")[-2000:]
        raise BenchError(f"a client failed or did not end in time:\n{text}")


def started(spec: Spec) -> AbstractContextManager[Worker]:
    """Run a client process until the block ends."""
    return process("tidegate_bench.clients", to_json(spec))


@contextmanager
def process(module: str, spec: str) -> Generator[Worker]:
    """Run a module with a specification as its argument, until the block ends."""
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        popen = subprocess.Popen(
            [sys.executable, "-m", module, spec],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        stack.enter_context(popen)
        stack.callback(popen.kill)
        yield Worker(popen, errors)


@contextmanager
def ready(specs: Sequence[Spec]) -> Generator[list[Worker]]:
    """Run client processes that are connected and wait for the start."""
    with ExitStack() as stack:
        workers = [stack.enter_context(started(spec)) for spec in specs]
        for worker in workers:
            worker.wait_until_ready()
        yield workers


def run(specs: Sequence[Spec]) -> list[Told]:
    """Run client processes beside each other to their ends, unmeasured."""
    with ready(specs) as workers:
        for worker in workers:
            worker.go()
        return [worker.told() for worker in workers]
