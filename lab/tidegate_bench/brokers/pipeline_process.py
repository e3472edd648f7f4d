"""python -m tidegate_bench.brokers.pipeline_process OPTIONS: a driver and its runner, on command.

A line `merge` or `compact` on standard input starts rounds until no work is left.  The process
answers with a line of JSON: the work done and its cost.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

import trio

from tidegate_pipeline.commands.options import Options
from tidegate_pipeline.commands.parts import living_driver, opened_runner, opened_shared
from tidegate_pipeline.commands.stopping import stopping_by_signals
from tidegate_pipeline.costs import CostBook
from tidegate_pipeline.driver import Driver
from tidegate_runtime.log_lines import configure_logs

from ..errors import BenchError
from ..measure import proc

SECONDS: Final = 600.0
_JVM: Final = "java"


@dataclass(frozen=True, slots=True)
class Cost:
    """The resources that processes have used so far: seconds of CPU, peaks of memory in bytes.

    driver: this process, which is also the worker if there are no others.
    """

    driver_cpu: float
    jvm_cpu: float
    worker_cpu: float
    worker_peak_bytes: int
    jvm_peak_bytes: int


@dataclass(frozen=True, slots=True)
class Work:
    """The work between two samples.  published: units."""

    seconds: float
    published: int
    failed: int
    bytes: int
    records: int
    removed: int
    gets: float
    driver_cpu: float
    jvm_cpu: float
    worker_cpu: float
    worker_peak_bytes: int
    jvm_peak_bytes: int

    @property
    def cpu(self) -> float:
        """Return the CPU of all processes."""
        return self.driver_cpu + self.jvm_cpu + self.worker_cpu


def main() -> None:
    """Run the commands of standard input, to its end."""
    configure_logs("warning")
    asked: dict[str, Any] = json.loads(sys.argv[1])
    asked["data"] = Path(asked["data"])
    trio.run(_serve, Options(**asked))


async def _serve(options: Options) -> None:
    async with (
        stopping_by_signals() as stopping,
        opened_shared(options, stopping, CostBook(time.time)) as shared,
        opened_runner(options, options.runner or "local", stopping) as runner,
        living_driver(shared, runner, options, _silent, stopping=stopping) as driver,
    ):
        print("ready", flush=True)
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            work = await _do(driver, line.strip())
            print(json.dumps(asdict(work)), flush=True)


async def _do(driver: Driver, what: str) -> Work:
    do = {"merge": driver.run_once, "compact": driver.compact_once}[what]
    for pid in _all_pids():
        with suppress(OSError):
            proc.forget_peak(pid)
    counters, published = driver.counters, 0
    done = (counters.failed, counters.bytes, counters.records, counters.removed, counters.gets)
    cost, begun = _cost(), time.perf_counter()
    while new := await do():
        published += new
    seconds, after = time.perf_counter() - begun, _cost()
    failed, read_bytes, records, removed, gets = done
    return Work(
        seconds,
        published,
        counters.failed - failed,
        counters.bytes - read_bytes,
        counters.records - records,
        counters.removed - removed,
        counters.gets - gets,
        after.driver_cpu - cost.driver_cpu,
        after.jvm_cpu - cost.jvm_cpu,
        after.worker_cpu - cost.worker_cpu,
        after.worker_peak_bytes,
        after.jvm_peak_bytes,
    )


def _all_pids() -> set[int]:
    return {os.getpid()} | proc.descendants(os.getpid())


def _cost() -> Cost:
    """Sample all processes; Spark's daemon counts its ended workers."""
    me = os.getpid()
    jvm_cpu = worker_cpu = 0.0
    jvm_peak = worker_peak = 0
    for pid in proc.descendants(me):
        with suppress(OSError):
            cpu, peak = proc.cpu_seconds_and_ended(pid), proc.peak_rss_bytes(pid)
            if proc.command_name(pid) == _JVM:
                jvm_cpu += cpu
                jvm_peak = max(jvm_peak, peak)
            else:
                worker_cpu += cpu
                worker_peak = max(worker_peak, peak)
    own_peak = proc.peak_rss_bytes(me)
    return Cost(proc.cpu_seconds(me), jvm_cpu, worker_cpu, worker_peak or own_peak, jvm_peak)


def _silent(_done: int, _planned: int) -> None:
    """Drop the text: no person watches."""


@dataclass(slots=True)
class PipelineProcess:
    """The process, from outside.  errors: a file with its standard error."""

    popen: subprocess.Popen[str]
    errors: Path

    def do(self, what: str) -> Work:
        """Merge or compact everything.

        Raises:
          BenchError: something failed, or it took too long.
        """
        stdin = cast(IO[str], self.popen.stdin)
        stdin.write(f"{what}\n")
        stdin.flush()
        work = Work(**json.loads(self.line()))
        if work.failed or not work.published:
            raise BenchError(f"{work.failed} units failed, {work.published} did not:{self._said()}")
        return work

    def line(self) -> str:
        """Wait for the next line of the process."""
        stdout = cast(IO[str], self.popen.stdout)
        ready, _, _ = select.select([stdout], [], [], SECONDS)
        line = stdout.readline() if ready else ""
        if not line:
            raise BenchError(f"the pipeline failed or did not end in time:{self._said()}")
        return line

    def _said(self) -> str:
        return "\n" + self.errors.read_text(errors="replace")[-2000:]


@contextmanager
def pipeline_process(options: Options, folder: Path) -> Generator[PipelineProcess]:
    """Run the process until the block ends; folder: for its standard error."""
    asked = asdict(options) | {"data": str(options.data)}
    errors = folder / f"pipeline-{options.runner}.log"
    with errors.open("ab") as file:
        popen = subprocess.Popen(
            [sys.executable, "-m", "tidegate_bench.brokers.pipeline_process", json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    with popen:
        try:
            process = PipelineProcess(popen, errors)
            _ = process.line()
            yield process
            cast(IO[str], popen.stdin).close()
            _ = popen.wait(SECONDS)
        finally:
            popen.kill()


if __name__ == "__main__":
    main()
