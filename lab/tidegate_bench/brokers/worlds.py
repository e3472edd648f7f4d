"""Brokers to measure: a gateway of our own, Apache Kafka, or one that runs already."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from .. import checkout
from ..errors import BenchError
from ..measure.samples import Eyes
from .stores import Store

Through = Callable[[str], str]

START_SECONDS = 90.0
STOP_SECONDS = 60.0
KAFKA_SETTINGS = {"log.segment.delete.delay.ms": "1000"}  # else deleted topics fill the disk


@dataclass(slots=True)
class World:
    """A broker that clients can reach, and the sources of its figures.  name: as in tables."""

    name: str
    bootstrap: str
    eyes: Eyes
    is_ours: bool = False


@dataclass(slots=True)
class Gateway:
    """A gateway process that can be killed and started again on its data and ports.

    processes: if given, a supervisor runs that many gateways instead, on as many cores.
    """

    folder: Path
    store_url: str
    log_url: str
    settings: Mapping[str, str]
    store_pid: int | None
    processes: int | None = None
    popen: subprocess.Popen[str] | None = None
    ports: tuple[int, int] = (0, 0)
    said: dict[str, Any] = field(default_factory=dict[str, Any])

    def start(self) -> None:
        """Start the gateway and wait until it serves.

        Raises:
          BenchError: it did not start.
        """
        command = self._one() if self.processes is None else self._several(self.processes)
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        with self._log.open("ab") as errors, on_cores(self.processes):
            self.popen = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=self.folder
            )
        self.said = json.loads(self._first_line(self.popen))
        # If there are several gateways, take the first one's address.
        first = str(self.said["bootstrap_servers"]).partition(",")[0]
        self.ports = (
            int(first.rpartition(":")[2]),
            int(str(self.said["admin_url"]).rpartition(":")[2]),
        )

    def _one(self) -> list[str]:
        port, admin_port = self.ports
        return [
            *(sys.executable, "-m", "tidegate_gateway", "dev", "--json"),
            *("--port", str(port), "--admin-port", str(admin_port)),
            *("--data", str(self.folder / "data")),
            *("--object-store", self.store_url, "--log", self.log_url),
        ]

    def _several(self, count: int) -> list[str]:
        port, admin_port = self.ports
        texts = (
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            f"admin.listener=127.0.0.1:{admin_port}",
            f"object.store={self.store_url}",
            f"metadata.log={self.log_url}",
        )
        return [
            *(sys.executable, "-m", "tidegate_gateway", "serve", "--json"),
            *("--processes", str(count), "--data", str(self.folder / "data")),
            *(word for each in texts for word in ("--set", each)),
        ]

    def stop(self, *, kill: bool = False) -> None:
        """Stop the gateway, by SIGTERM or by SIGKILL."""
        if self.popen is None:
            return
        with self.popen as popen:
            if not kill:
                popen.terminate()
                try:
                    popen.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    kill = True
            if kill:
                popen.kill()
        self.popen = None

    @property
    def world(self) -> World:
        """Return the gateway's present addresses and sources of figures."""
        assert self.popen is not None
        metrics = f"{self.said['admin_url']}/metrics"
        gateways = self.said["processes"] if self.processes is not None else ()
        eyes = Eyes(self.popen.pid, self.store_pid, metrics, tuple(gateways))
        return World("tidegate", str(self.said["bootstrap_servers"]), eyes, is_ours=True)

    @property
    def _log(self) -> Path:
        return self.folder / "gateway.log"

    def _first_line(self, popen: subprocess.Popen[str]) -> str:
        stdout = cast(IO[str], popen.stdout)
        found, _, _ = select.select([stdout], [], [], START_SECONDS)
        line = stdout.readline() if found else ""
        if not line:
            self.stop(kill=True)
            raise BenchError(f"the gateway did not start:\n{self._log.read_text()[-2000:]}")
        return line


@contextmanager
def gateway(
    store: Store,
    log: str | None,
    settings: Mapping[str, str],
    *,
    through: Through | None = None,
    processes: int | None = None,
) -> Generator[Gateway]:
    """Run a gateway of our own on a fresh folder, which is removed at the end.

    Args:
      log: memory, sqlite or a URL; None: memory for a store in memory, else SQLite.
      through: replaces the store's URL by the URL of a proxy of the store.
      processes: see Gateway.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        store_url = store.open_place(folder)
        stack.callback(store.drop_place, store_url)
        reached = through(store_url) if through else store_url
        log_url = _log_url(store_url, log, folder)
        made = Gateway(folder, reached, log_url, settings, store.pid, processes)
        stack.callback(made.stop, kill=True)
        made.start()
        yield made


@contextmanager
def kafka(cores: int | None = None) -> Generator[World]:
    """Run Apache Kafka from its jars.

    cores: that it may use; None: all.

    Raises:
      BenchError: no checkout, no Java or no Maven.
    """
    broker = checkout.harness("broker")
    missing = checkout.harness("install").MissingTool
    try:
        with on_cores(cores):
            running = broker.start("kafka", KAFKA_SETTINGS)
    except missing as error:
        raise BenchError(f"--vs-kafka cannot start Apache Kafka: {error}") from error
    try:
        yield World("kafka", running.bootstrap, Eyes(pid=running.process.popen.pid))
    finally:
        running.stop()
        shutil.rmtree(running.folder, ignore_errors=True)


@contextmanager
def on_cores(count: int | None) -> Generator[None]:
    """Restrict processes that start in the context to the machine's first cores; None: no limit."""
    all_cores = os.sched_getaffinity(0)
    if count is not None:
        os.sched_setaffinity(0, sorted(all_cores)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


def external(bootstrap: str, pid: int | None, metrics_url: str | None) -> World:
    """Return a broker that runs already."""
    if pid is not None and not Path(f"/proc/{pid}").exists():
        raise BenchError(f"--pid {pid}: no such process on this machine")
    return World(bootstrap, bootstrap, Eyes(pid=pid, metrics_url=metrics_url))


def _log_url(store_url: str, log: str | None, folder: Path) -> str:
    chosen = log or ("memory" if store_url == "memory:" else "sqlite")
    urls = {"memory": "memory:", "sqlite": f"sqlite:{folder}/metadata.db"}
    return urls.get(chosen, chosen)
