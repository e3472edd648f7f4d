"""Brokers under test: the gateway, Apache Kafka, or one that is already running.

`start("tidegate" | "kafka" | "HOST:PORT", settings)` returns a running broker on free ports of the
loopback with a fresh data folder below .work/brokers.  Settings carry Kafka's names.  `restart()`
and `kill()` keep ports and data, so a test can crash a broker.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness import kafka_broker
from harness.places import KAFKA_VERSION, ROOT, WORK
from harness.probe import answers
from harness.process import Process, free_ports, spawn
from harness.security import NEXT_PORT, with_ports

READY_SECONDS = 90.0
_numbers = itertools.count(1)


class Broker(Protocol):
    """A running broker that clients can be pointed at."""

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        ...

    def stop(self) -> None:
        """Stop it with SIGTERM; do nothing if the test did not start it."""
        ...


@dataclass(slots=True)
class ExternalBroker:
    """A broker that was running before; it is not stopped."""

    bootstrap: str

    def stop(self) -> None:
        """Do nothing: the tests did not start this broker."""


@dataclass(slots=True)
class LocalBroker:
    """A broker process of ours with its data folder."""

    command: list[str]
    port: int
    folder: Path
    process: Process | None = field(default=None, init=False)

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The output of all processes of the broker, one after another."""
        return self.folder / "broker.log"

    def start(self) -> None:
        """Start the process on the data that is there and wait until it answers.

        Raises:
          StartFailed: it ended or did not answer within READY_SECONDS.
        """
        self.start_nowait().wait_until(lambda: answers("127.0.0.1", self.port), READY_SECONDS)

    def start_nowait(self) -> Process:
        """Start the process on the data that is there."""
        self.process = spawn(self.command, self.log, cwd=ROOT)
        return self.process

    def stop(self) -> None:
        """SIGTERM and wait."""
        if self.process:
            self.process.stop(60)

    def kill(self) -> None:
        """kill -9."""
        if self.process:
            self.process.kill()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None, "it was started"
        self.process.popen.send_signal(number)

    def restart(self) -> None:
        """Start again on the same ports and data, after stop() or kill()."""
        self.stop()
        self.start()


def start(
    against: str,
    settings: Mapping[str, str] | None = None,
    *,
    log_url: str = "",
    version: str = KAFKA_VERSION,
    heap: str = kafka_broker.HEAP,
) -> Broker:
    """Return a running broker; `against` is tidegate, kafka or an address.

    log_url: the metadata log of a gateway; "": SQLite in its folder.  version, heap: of Apache
    Kafka.

    Raises:
      StartFailed: it did not get ready.
      MissingTool: Java or Maven is not here (kafka only).
    """
    if against not in ("tidegate", "kafka"):
        return ExternalBroker(against)
    folder = fresh_folder(against)
    if against == "tidegate":
        broker = _tidegate(folder, settings or {}, log_url)
    else:
        broker = _kafka(folder, settings or {}, version, heap)
    try:
        broker.start()
    except BaseException:
        broker.kill()
        raise
    return broker


@contextmanager
def running(
    against: str, settings: Mapping[str, str] | None = None, *, log_url: str = ""
) -> Generator[Broker]:
    """Start a broker, and stop it at the end.  Its data is removed, its output stays."""
    broker = start(against, settings, log_url=log_url)
    try:
        yield broker
    finally:
        broker.stop()
        if isinstance(broker, LocalBroker):
            shutil.rmtree(broker.folder / "data", ignore_errors=True)


def fresh_folder(against: str) -> Path:
    """Return an empty folder for a broker's data and what it prints."""
    folder = WORK / "brokers" / f"{against}-{os.getpid()}-{next(_numbers)}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _tidegate(folder: Path, settings: Mapping[str, str], log_url: str) -> LocalBroker:
    port, admin_port = _ports(settings)
    command = [str(ROOT / "tidegate"), "dev", "--port", str(port), "--admin-port", str(admin_port)]
    command += ["--data", str(folder / "data")]
    if log_url:
        command += ["--log", log_url]
    for name, value in with_ports(settings, port).items():
        # As with Kafka, a setting "listeners" adds listeners to the one on the port.
        own = f"PLAINTEXT://127.0.0.1:{port}," if name == "listeners" else ""
        command += ["--set", f"{name}={own}{value}"]
    return LocalBroker(command, port, folder)


def _kafka(folder: Path, settings: Mapping[str, str], version: str, heap: str) -> LocalBroker:
    port, controller_port = _ports(settings)
    node = kafka_broker.alone(port, controller_port)
    own = with_ports(settings, port)
    command = kafka_broker.prepare(folder, node, own, version=version, heap=heap)
    return LocalBroker(command, port, folder)


def _ports(settings: Mapping[str, str]) -> list[int]:
    """Return two ports.  The port after the first one is free, too, if settings name it."""
    is_named = any(NEXT_PORT in text for text in settings.values())
    return free_ports(2, partner=1 if is_named else 0)
