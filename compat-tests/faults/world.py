"""Three gateways in three zones over PostgreSQL and SeaweedFS, each a process of its own.

A fault can end each process by a signal, and can pause a gateway.

Every connection between clients, gateways, log and store goes through a link of relay.py.  The code
that starts PostgreSQL and SeaweedFS comes from the tests of the other packages.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

from harness.places import HERE
from harness.process import Process, StartFailed, free_ports, spawn, tail

from faults.relay import Mode
from tests.worlds import seaweed
from tests.worlds.pg_server import running_postgres

ZONES = 3
BUCKET = "tidegate-faults"
START_SECONDS = 60.0
STOP_SECONDS = 60.0
WEED_STOP_SECONDS = 5.0  # SeaweedFS takes long to end by itself; SIGKILL comes after this time
LOOK_SECONDS = 0.05


class Relay:
    """The links, by name."""

    def __init__(self, ports: dict[str, tuple[int, int]]) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, str(HERE / "faults" / "relay.py"), json.dumps(ports)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that Ctrl+C reaches only the run
        )
        self._hear()

    def turn(self, link: str, mode: Mode) -> None:
        """Set the state of a link."""
        commands = cast(IO[bytes], self._popen.stdin)
        commands.write(f"{link} {mode}\n".encode())
        commands.flush()
        self._hear()

    def close(self) -> None:
        """End it."""
        self._popen.kill()
        self._popen.communicate()

    def _hear(self) -> None:
        line = cast(IO[bytes], self._popen.stdout).readline()
        if line != b"ok\n":
            raise StartFailed(f"the relay ended with {self._popen.wait()}")


@dataclass(slots=True)
class Weed:
    """SeaweedFS, on the same ports after each restart."""

    module: Any
    folder: Path
    ports: list[int]
    process: Process | None = None

    @property
    def endpoint(self) -> str:
        """The URL of its S3 API."""
        return f"http://127.0.0.1:{self.ports[-1]}"

    def start(self) -> None:
        """Start it and wait until it takes objects."""
        command = self.module._command(self.folder, *self.ports)
        self.process = spawn(command, self.folder / "weed.log", cwd=self.folder)
        self.process.wait_until(lambda: _is_ok(f"{self.endpoint}/healthz"), START_SECONDS)
        self.module.make_bucket(self.endpoint, BUCKET)

    def stop(self, how: signal.Signals) -> None:
        """SIGTERM (cut short if it takes long) or SIGKILL."""
        if self.process is None:
            return
        if how is signal.SIGKILL:
            self.process.kill()
        else:
            self.process.stop(WEED_STOP_SECONDS)


@dataclass(slots=True)
class Gateway:
    """One gateway.  texts: its settings.  python: the interpreter with the release that it runs."""

    number: int
    folder: Path
    port: int
    admin_port: int
    texts: dict[str, str]
    python: Path = Path(sys.executable)
    process: Process | None = field(default=None)

    @property
    def log(self) -> Path:
        """The output of all its lives, one after another."""
        return self.folder.parent / "logs" / f"gateway-{self.number}.log"

    @property
    def settings(self) -> Path:
        """Its file of settings, which a start writes."""
        return self.folder / "server.properties"

    @property
    def command(self) -> list[str]:
        """The command that serves."""
        words = ["--properties", str(self.settings), "--data", str(self.folder)]
        return [str(self.python), "-m", "tidegate_gateway", "serve", *words]

    def start(self) -> None:
        """Start it and wait until clients may connect."""
        self.folder.mkdir(exist_ok=True)
        texts = "".join(f"{name}={text}\n" for name, text in self.texts.items())
        self.settings.write_text(texts)
        self.process = spawn(self.command, self.log)
        ready = f"http://127.0.0.1:{self.admin_port}/readyz"
        deadline = time.monotonic() + START_SECONDS
        while not _is_ok(ready):
            if self.process.popen.poll() is not None or time.monotonic() > deadline:
                raise StartFailed(f"gateway {self.number} did not start\n{tail(self.log)}")
            time.sleep(LOOK_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None, "it was started"
        self.process.popen.send_signal(number)


def _is_ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@dataclass(slots=True)
class World:
    """All processes of a run but the clients.  database: the URL of the log without a link."""

    postgres: Any
    database: str
    weed: Weed
    gateways: dict[int, Gateway]
    relay: Relay

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses of all gateways."""
        listeners = [each.texts["advertised.listeners"] for each in self.gateways.values()]
        return ",".join(each.removeprefix("PLAINTEXT://") for each in listeners)

    def start_gateway(self, number: int) -> None:
        """Start a gateway, and open its link to clients once it is ready."""
        self.gateways[number].start()
        self.relay.turn(f"clients-{number}", Mode.PASS)

    def kill_gateway(self, number: int) -> None:
        """kill -9."""
        process = self.gateways[number].process
        assert process is not None, "it was started"
        process.kill()
        self.relay.turn(f"clients-{number}", Mode.REFUSE)

    def drain_gateway(self, number: int) -> int:
        """SIGTERM, and wait; return its exit code."""
        process = self.gateways[number].process
        assert process is not None, "it was started"
        code = process.stop(STOP_SECONDS)
        self.relay.turn(f"clients-{number}", Mode.REFUSE)
        return code

    def turn_all(self, what: str, mode: Mode) -> None:
        """Set the links of all gateways to clients, log or store."""
        for number in self.gateways:
            self.relay.turn(f"{what}-{number}", mode)

    def use_log(self, database: str) -> None:
        """Set another database in the gateways' settings; each reaches it through its link."""
        self.database = database
        for each in self.gateways.values():
            link = urlsplit(each.texts["metadata.log"]).port
            each.texts["metadata.log"] = database.replace(f":{self.postgres.port}/", f":{link}/")

    def restart_postgres(self, how: signal.Signals) -> None:
        """End it with a signal and start it again."""
        self.postgres.stop(how)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.postgres.start()
                return
            except RuntimeError:  # after kill -9 its child processes live on for a moment
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_SECONDS)

    def restart_weed(self, how: signal.Signals) -> None:
        """End it with a signal and start it again."""
        self.weed.stop(how)
        self.weed.start()

    def close(self) -> None:
        """End all that runs."""
        for each in self.gateways.values():
            if each.process is not None and each.process.popen.poll() is None:
                each.process.kill()
        self.relay.close()
        self.weed.stop(signal.SIGKILL)


@contextmanager
def running_world(
    folder: Path,
    pythons: Mapping[int, Path] | None = None,
    more: Mapping[str, str] | None = None,
) -> Generator[World]:
    """Start everything with its data in folder (an absolute one); end it after the block.

    pythons: by node.id, the interpreter with a gateway's release, by default this tree's.  more:
    settings of all gateways.
    """
    os.environ["AWS_ACCESS_KEY_ID"] = seaweed.ACCESS_KEY
    os.environ["AWS_SECRET_ACCESS_KEY"] = seaweed.SECRET_KEY
    weed_folder = folder / "seaweed"
    (weed_folder / "data").mkdir(parents=True)
    (weed_folder / "ids.json").write_text(json.dumps(seaweed._identities()))
    weed = Weed(seaweed, weed_folder, free_ports(4, partner=seaweed._GRPC_SHIFT))
    with running_postgres() as postgres:
        world = _made(folder, postgres, weed)
        try:
            weed.start()
            for gateway in world.gateways.values():
                gateway.python = (pythons or {}).get(gateway.number, gateway.python)
                gateway.texts |= more or {}
                gateway.start()
            yield world
        finally:
            world.close()


def _made(folder: Path, postgres: Any, weed: Weed) -> World:
    database = postgres.new_database()
    links: dict[str, tuple[int, int]] = {}
    gateways: dict[int, Gateway] = {}
    token = secrets.token_hex(16)
    for number in range(1, ZONES + 1):
        port, admin, peer, clients, log, store = free_ports(6)
        links[f"clients-{number}"] = (clients, port)
        links[f"log-{number}"] = (log, postgres.port)
        links[f"store-{number}"] = (store, weed.ports[-1])
        texts = {
            "node.id": str(number),
            "broker.rack": f"az-{number}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{clients}",
            "admin.listener": f"127.0.0.1:{admin}",
            "peer.listener": f"127.0.0.1:{peer}",
            "peer.token": token,
            "metadata.log": database.replace(f":{postgres.port}/", f":{log}/"),
            "object.store": f"s3://{BUCKET}/run?endpoint=http://127.0.0.1:{store}&region=us-east-1",
            "disk.cache.dir": str(folder / f"gateway-{number}" / "cache"),
            "default.replication.factor": str(ZONES),
            "group.initial.rebalance.delay.ms": "0",
        }
        gateways[number] = Gateway(number, folder / f"gateway-{number}", port, admin, texts)
    return World(postgres, database, weed, gateways, Relay(links))
