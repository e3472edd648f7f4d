"""Topics of Apache Kafka are imported while driver and workers get kill -9; every byte is compared.

    compat-tests/run importing --mib 2000

librdkafka writes to Kafka in all codecs, plain, idempotent and in transactions of which some abort;
one topic is compacted.  The import runs on Spark.  Its driver is killed in the middle of the
import.  A worker of the next driver is killed too, and this driver must complete.  Another cluster
imports from the folders of Kafka's logs.  `tidegate link verify` compares batch by batch and record
by record.  Exit status 1 when anything differs.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka import Producer
from harness import broker
from harness.places import ROOT
from runner.result import Result
from runner.shared import Seeded

from migration.mirror import RESULT_SECONDS, Mirror, Writers
from migration.tidegate_command import COMMAND_SECONDS

LINK: Final = "source"
BULK: Final = "bulk"
BULK_PARTITIONS: Final = 3
ACTS: Final = 12
VALUE_BYTES: Final = 20_000
# With these limits the mirrors cannot copy everything between the claims of two imports.
_GATEWAY: Final = {"lease.ms": "8000", "link.held.bytes.max": str(1 << 20)}
_KAFKA: Final = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.threads": "1",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.01",
}


class Backlog(Writers):
    """The backlog that is imported."""

    def __init__(self, bootstrap: str, rng: Random) -> None:
        super().__init__(bootstrap, rng)
        self.create("keyed", 1, **_COMPACTED)
        self.create(BULK, BULK_PARTITIONS)

    def fill(self, mib: int) -> None:
        """Write the whole backlog."""
        for _ in range(ACTS):
            self.act()
            self._write_to("keyed", 100)
        self._write_bulk(mib)

    def _write_to(self, topic: str, count: int) -> None:
        producer = self._producer()
        for number in range(count):
            producer.produce(topic, f"{number}".encode() * 10, key=f"k{number % 20}".encode())
        producer.flush(RESULT_SECONDS)

    def _write_bulk(self, mib: int) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "log_level": 0, "batch.size": 200_000}
        )
        value = self._rng.randbytes(VALUE_BYTES)
        for number in range((mib << 20) // VALUE_BYTES):
            producer.produce(BULK, value, partition=number % BULK_PARTITIONS)
            if number % 200 == 0:
                producer.flush(RESULT_SECONDS)
        producer.flush(RESULT_SECONDS)


class Beside(Mirror):
    """`tidegate link` beside a gateway with its own files."""

    def __init__(self, gateway: broker.LocalBroker) -> None:
        self.data = gateway.folder / "data"
        super().__init__("--data", str(self.data))


@dataclass(slots=True)
class CpuTime:
    """The CPU time of a process, with its children that have ended."""

    user_seconds: float = 0.0
    system_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the sum."""
        return self.user_seconds + self.system_seconds


class Import:
    """`tidegate pipeline import`, as a process."""

    def __init__(self, data: Path, *more: str) -> None:
        words = ("pipeline", "import", LINK, *more, "--data", str(data), "--json")
        self._objects = data / "objects"
        handle, name = tempfile.mkstemp(".log", "import-", data.parent)
        self._said = Path(name)
        with os.fdopen(handle, "w") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidegate_gateway", *words],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the driver's process."""
        return self._process.pid

    @contextmanager
    def measured(self) -> Generator[CpuTime]:
        """Measure the CPU time of the process.  It must end in the block: call `result` there."""
        used, before = CpuTime(), resource.getrusage(resource.RUSAGE_CHILDREN)
        yield used
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.user_seconds = after.ru_utime - before.ru_utime
        used.system_seconds = after.ru_stime - before.ru_stime

    @classmethod
    def prepared(cls, mirror: Beside, bootstrap: str, *more: str) -> Import:
        """Start an import that waits for topics.  The mirrors pause for it."""
        servers = ("--bootstrap-servers", bootstrap)
        mirror.command("link", "add", LINK, *servers, "--topics", "nothing-yet")
        one = cls(mirror.data, *more)
        one.wait_until_said("stand aside")
        return one

    @staticmethod
    def begin(mirror: Beside, bootstrap: str, topics: str = ".*") -> None:
        """Give the link topics, so that the import begins."""
        servers = ("--bootstrap-servers", bootstrap)
        mirror.command("link", "add", LINK, *servers, "--topics", topics, "--replace")

    def wait_until_said(self, text: str) -> None:
        """Wait until the import has printed this text."""
        until = time.monotonic() + RESULT_SECONDS
        while text not in self._said.read_text():
            assert time.monotonic() < until, f"not said: {text}: {self._said.read_text()}"
            assert self._process.poll() is None, self._said.read_text()
            time.sleep(0.05)

    def stored_bytes(self) -> int:
        """Return the size of all objects that imports wrote."""
        return sum(each.stat().st_size for each in self._objects.glob("*/*/wal/import/*/*"))

    def wait_for(self, more: int) -> bool:
        """Wait until the import stores `more` further bytes; return False if it ends before."""
        wanted = self.stored_bytes() + more
        while self.stored_bytes() < wanted:
            if self._process.poll() is not None:
                return False
            time.sleep(0.02)
        return True

    def kill(self) -> None:
        """kill -9 of the driver, unless it has ended; its JVM ends by itself."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def kill_worker(self) -> bool:
        """kill -9 of a Python worker of Spark; return whether there was one."""
        workers = list(_workers(self._process.pid))
        for pid in workers[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(workers)

    def result(self) -> dict[str, Any]:
        """Wait for the end of the process; return its output."""
        out, _ = self._process.communicate(timeout=COMMAND_SECONDS)
        if out:
            return dict(json.loads(out))
        return {"problems": {"import": self._said.read_text()}, "bytes": 0}


def _workers(driver: int) -> Iterator[int]:
    """Yield the process ids of Spark's workers: the JVM's daemon forks them."""
    parents = dict(_parents())
    for pid, daemon in parents.items():
        if parents.get(parents.get(daemon, 0)) == driver:
            yield pid


def _parents() -> Iterator[tuple[int, int]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            yield int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])


def run(mib: int, seed: int, *, by_record: bool = True) -> dict[str, Any]:
    """Run; return the figures, with the errors found as `problems`."""
    with ExitStack() as stack:
        kafka = broker.start("kafka", _KAFKA)
        stack.callback(kafka.stop)
        gateway = broker.start("tidegate", _GATEWAY)
        stack.callback(gateway.stop)
        assert isinstance(kafka, broker.LocalBroker)
        assert isinstance(gateway, broker.LocalBroker)
        for each in (kafka, gateway):
            stack.callback(shutil.rmtree, each.folder / "data", ignore_errors=True)
        backlog, mirror = Backlog(kafka.bootstrap, Random(seed)), Beside(gateway)
        backlog.fill(mib)
        from_logs = _from_logs(kafka)
        first = Import.prepared(mirror, kafka.bootstrap)
        stack.callback(first.kill)
        last = Import(mirror.data)
        stack.callback(last.kill)
        last.wait_until_said("another import")
        first.begin(mirror, kafka.bootstrap)
        kills = int(first.wait_for((mib << 20) // 3))
        first.kill()
        kills += last.wait_for((mib << 20) // 8) and last.kill_worker()
        done = last.result()
        problems = [f"{name}: {text}" for name, text in done["problems"].items()]
        problems += [] if _wait(mirror) else ["the copies did not become complete"]
        problems += [*mirror.differences(), *from_logs]
        if by_record:
            problems += mirror.differences("--records")
    return {
        "records": backlog.records,
        "kills": kills,
        "bytes": done["bytes"],
        "mib_per_second": done.get("mib_per_second"),
        "problems": problems,
    }


def _from_logs(kafka: broker.LocalBroker) -> list[str]:
    """Import from the folders of Kafka's logs into another cluster; return the problems."""
    with ExitStack() as stack:
        gateway = broker.start("tidegate")
        assert isinstance(gateway, broker.LocalBroker)
        stack.callback(shutil.rmtree, gateway.folder / "data", ignore_errors=True)
        stack.callback(gateway.stop)
        mirror = Beside(gateway)
        where = ("--runner", "local", "--logs", str(kafka.folder / "data"))
        one = Import.prepared(mirror, kafka.bootstrap, *where)
        one.begin(mirror, kafka.bootstrap)
        done = one.result()
        problems = [f"{name}: {text}" for name, text in done["problems"].items()]
        if done["bytes"] < BULK_PARTITIONS:
            problems.append("nothing was imported from the folders")
        problems += [] if _wait(mirror) else ["the copies did not become complete"]
        return [f"from folders: {each}" for each in (*problems, *mirror.differences())]


def _wait(mirror: Beside) -> bool:
    until = time.monotonic() + RESULT_SECONDS
    while time.monotonic() < until:
        if mirror.is_complete():
            return True
        time.sleep(0.5)
    return False


@dataclass(frozen=True)
class Options(Seeded):
    """The options."""

    mib: int = 1000


def main(options: Options) -> Result:
    """Run it."""
    figures = run(options.mib, options.seed)
    return Result(not figures["problems"], figures=figures)
