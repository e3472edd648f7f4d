"""Records through a gateway on SeaweedFS while the pipeline merges: all come back as written.

    compat-tests/run pipeline --gigabytes 3 --json

A part of the topic is written without the pipeline, and read by a gateway with empty caches.  Then
the pipeline runs beside the writers.  When it has nothing left to merge, everything is read again
from offset 0, again with empty caches.  The exit status is 1 if a record is not as it was written.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from crash.seaweed_store import seaweed_store
from harness.broker import LocalBroker, running
from harness.places import ROOT
from harness.process import Process, spawn
from runner.result import Result

from pipeline.clients import Many

TOPIC = "merged"
AVERAGE_BYTES = 1_060
FIRST_SHARE = 0.2
MERGED_SECONDS = 600.0


@dataclass(frozen=True)
class Options:
    """The options."""

    gigabytes: float = 3.0
    partitions: int = 60


@dataclass(slots=True)
class Figures:
    """The measurements of a run. gets_per_gib_*: GETs of the gateway, by GiB of values read."""

    gigabytes: float
    partitions: int
    records: int = 0
    runs_before: int = field(default=0, init=False)
    rows_after: int = field(default=0, init=False)
    gets_per_gib_before: float = field(default=0.0, init=False)
    gets_per_gib_after: float = field(default=0.0, init=False)
    got_per_byte_before: float = field(default=0.0, init=False)
    got_per_byte_after: float = field(default=0.0, init=False)
    write_seconds: float = field(default=0.0, init=False)
    merge_lag_seconds: float = field(default=0.0, init=False)
    read_mb_per_second_before: float = field(default=0.0, init=False)
    read_mb_per_second_after: float = field(default=0.0, init=False)
    log_bytes: int = field(default=0, init=False)
    status: dict[str, Any] | None = field(default=None, init=False)


def metric(broker: LocalBroker, name: str) -> float:
    """Return one number of the gateway's metrics page."""
    port = broker.command[broker.command.index("--admin-port") + 1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        for line in page.read().decode().splitlines():
            if line.startswith((f"{name} ", f"{name}_total ")):
                return float(line.rsplit(" ", 1)[1])
    raise KeyError(name)


class Pipeline:
    """`tidegate pipeline run` beside a gateway."""

    def __init__(self, broker: LocalBroker, store: str) -> None:
        data = broker.command[broker.command.index("--data") + 1]
        self._places = ["--data", data, "--object-store", store]
        self._log = broker.folder / "pipeline.log"
        self._process: Process | None = None

    def start(self) -> None:
        """Start it."""
        rests = ["--rest-ms", "5000", "--patience-ms", "15000", "--interval-seconds", "2"]
        command = [str(ROOT / "tidegate"), "pipeline", "run", *self._places, *rests]
        self._process = spawn(command, self._log, cwd=ROOT)

    def stop(self) -> None:
        """SIGTERM and wait."""
        if self._process:
            self._process.stop(120)

    def status(self) -> dict[str, Any]:
        """Return `tidegate pipeline status --json`."""
        command = [str(ROOT / "tidegate"), "pipeline", "status", "--json", *self._places]
        printed = subprocess.run(command, check=True, capture_output=True).stdout
        status: dict[str, Any] = json.loads(printed)
        return status


class Run:
    """One run: load, merges, and the comparison of all records."""

    def __init__(self, broker: LocalBroker, store: str, options: Options) -> None:
        self._broker = broker
        self._pipeline = Pipeline(broker, store)
        self._many = Many(broker.bootstrap, TOPIC, options.partitions)
        total = int(options.gigabytes * 1e9 / AVERAGE_BYTES)
        self._offsets = total // options.partitions
        self._partitions = options.partitions
        self.figures = Figures(
            options.gigabytes, options.partitions, self._offsets * options.partitions
        )

    def run(self) -> Figures:
        """Write, merge, read."""
        figures = self.figures
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        # The records have time stamps of years ago, so retention must not delete them.
        topic = NewTopic(TOPIC, self._partitions, 1, config={"retention.ms": "-1"})
        for future in admin.create_topics([topic]).values():
            future.result()
        first = int(self._offsets * FIRST_SHARE)
        self._many.write(0, first)
        figures.runs_before = self._pipeline.status()["runs"]
        before = self._read_cold(first)
        figures.gets_per_gib_before, figures.got_per_byte_before = before[:2]
        figures.read_mb_per_second_before = before[2]
        self._pipeline.start()
        try:
            began = time.monotonic()
            self._many.write(first, self._offsets)
            figures.write_seconds = time.monotonic() - began
            figures.merge_lag_seconds = self._wait_until_merged()
            figures.status = self._pipeline.status()
        finally:
            self._pipeline.stop()
        after = self._read_cold(self._offsets)
        figures.gets_per_gib_after, figures.got_per_byte_after = after[:2]
        figures.read_mb_per_second_after = after[2]
        figures.rows_after = figures.status["segments"] + figures.status["runs"]
        data = Path(self._broker.command[self._broker.command.index("--data") + 1])
        figures.log_bytes = sum(each.stat().st_size for each in data.glob("*.db*"))
        return figures

    def _wait_until_merged(self) -> float:
        began = time.monotonic()
        while self._pipeline.status()["runs"]:
            if time.monotonic() - began > MERGED_SECONDS:
                raise RuntimeError(f"not merged: {self._pipeline.status()}")
            time.sleep(2)
        return time.monotonic() - began

    def _read_cold(self, last: int) -> tuple[float, float, float]:
        """Read all with empty caches; return GETs a GiB, bytes from the store a byte, and MB/s."""
        self._broker.restart()
        began = time.monotonic()
        size_bytes = self._many.read(last)
        seconds = time.monotonic() - began
        gets = metric(self._broker, "tidegate_store_gets")
        got = metric(self._broker, "tidegate_store_get_bytes")
        return gets / size_bytes * 2**30, got / size_bytes, size_bytes / seconds / 1e6


def main(options: Options) -> Result:
    """Run it."""
    with (
        TemporaryDirectory() as folder,
        seaweed_store(Path(folder)) as store,
        running("tidegate", {"object.store": store}) as broker,
    ):
        assert isinstance(broker, LocalBroker)
        figures = Run(broker, store, options).run()
    return Result(is_good=True, figures=figures)
