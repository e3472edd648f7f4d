"""`tidegate dev --zones 3 --real`, with its gateways started again with other settings.

dev provides PostgreSQL, SeaweedFS and a file of settings for each gateway.  The run stops dev's
gateways, and starts gateways from these files, with more listeners and a relay to the store that
counts GETs.  There may be several gateways in each zone.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from harness.places import ROOT
from harness.process import free_ports, tail

HERE = Path(__file__).resolve().parent
TIDEGATE = (sys.executable, "-m", "tidegate_gateway")
PATIENCE_SECONDS = 120.0
ZONES = ("az-1", "az-2", "az-3")
LISTENER, PROXIED = "OF_AZ_2", "BEHIND"
PROXIED_ADDRESS = "10.3.0.7"
SETTINGS = {
    "listener.security.protocol.map": (
        f"PLAINTEXT:PLAINTEXT,{LISTENER}:PLAINTEXT,{PROXIED}:PLAINTEXT"
    ),
    "zone.listener.map": f"{LISTENER}:az-2",
    "zone.cidr.map": "az-1@127.0.0.0/8<>az-3@10.3.0.0/16",
    "proxy.protocol.listeners": PROXIED,
}


def _pipes(
    command: list[str], errors: IO[bytes] | int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
    )


def _line(popen: subprocess.Popen[bytes]) -> bytes:
    assert popen.stdout is not None
    ready, _, _ = select.select([popen.stdout], [], [], PATIENCE_SECONDS)
    line = popen.stdout.readline() if ready else b""
    if not line:
        popen.kill()
        raise RuntimeError(f"{popen.args!r} said nothing")
    return line


def _say(popen: subprocess.Popen[bytes], word: str) -> None:
    assert popen.stdin is not None
    popen.stdin.write(f"{word}\n".encode())
    popen.stdin.flush()


@dataclass(slots=True)
class Relay:
    """A relay of the tests as a process.  port: where it listens."""

    popen: subprocess.Popen[bytes]
    port: int

    @classmethod
    def start(cls, program: str, *arguments: str) -> Relay:
        """Start it."""
        popen = _pipes([sys.executable, str(HERE / program), *arguments])
        return cls(popen, int(_line(popen)))

    def counts(self) -> dict[str, list[int]]:
        """Return the counts of counting.py since the last call."""
        _say(self.popen, "counts")
        found: dict[str, list[int]] = json.loads(_line(self.popen))
        return found

    def stop(self) -> None:
        """End it."""
        self.popen.kill()
        self.popen.communicate()


@dataclass(slots=True)
class ZoneGateway:
    """A gateway as a process.  texts: its settings."""

    node_id: int
    zone: str
    folder: Path
    texts: dict[str, str]
    counting: Relay
    proxying: Relay
    said: dict[str, Any] = field(default_factory=dict)
    popen: subprocess.Popen[bytes] | None = None

    def address(self, listener: str = "PLAINTEXT") -> str:
        """host:port of a listener, as clients reach it."""
        if listener == PROXIED:
            return f"127.0.0.1:{self.proxying.port}"
        named = dict(each.split("://") for each in self.texts["listeners"].split(","))
        return named[listener]

    def start(self, *, cold: bool = False) -> None:
        """Start it.  cold: remove its disk cache of segments first."""
        if cold:
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
        file = self.folder / "zones.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in self.texts.items()))
        file.chmod(0o600)
        command = [*TIDEGATE, "serve", "--json", "--properties", str(file)]
        command += ["--data", str(self.folder), "--log-level", "warning"]
        with (self.folder / "zones.log").open("ab") as log:
            self.popen = _pipes(command, log)
        try:
            self.said = json.loads(_line(self.popen))
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{tail(self.folder / 'zones.log')}") from None

    def stop(self) -> None:
        """SIGTERM and wait."""
        if self.popen is None:
            return
        self.popen.terminate()
        try:
            self.popen.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.communicate()
        self.popen = None

    def get(self, path: str) -> str:
        """Get a page of its admin listener."""
        with urllib.request.urlopen(f"{self.said['admin_url']}{path}", timeout=60) as page:
            return str(page.read().decode())

    def report(self) -> dict[str, Any]:
        """Return the report that `tidegate zones --json` prints."""
        found: dict[str, Any] = json.loads(self.get("/v1/zones"))
        return found

    def metrics(self) -> dict[str, float]:
        """Return all series of its metrics page."""
        lines = [each for each in self.get("/metrics").splitlines() if not each.startswith("#")]
        return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines)}

    def rss_bytes(self) -> int:
        """Return its peak resident memory."""
        assert self.popen is not None
        for line in Path(f"/proc/{self.said['pid']}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0


@dataclass(slots=True)
class Cluster:
    """store, log: URLs; the variables that they need are in this process's environment."""

    store: str
    log: str
    gateways: list[ZoneGateway]

    def of(self, zone: str) -> list[ZoneGateway]:
        """Return the gateways of a zone."""
        return [each for each in self.gateways if each.zone == zone]

    def restart_cold(self) -> None:
        """Restart all gateways with empty caches, and reset the counts."""
        for each in self.gateways:
            each.stop()
        for each in self.gateways:
            each.start(cold=True)
            each.counting.counts()


@contextmanager
def running_zones(folder: Path, in_zone: int, more: dict[str, str]) -> Generator[Cluster]:
    """Run gateways in three zones until the block ends.

    Args:
      in_zone: the number of gateways of each zone.  more: settings of all gateways.
    """
    with ExitStack() as stack:
        command = [*TIDEGATE, "dev", "--zones", "3", "--real", "--json"]
        command += ["--port", "0", "--admin-port", "0", "--data", str(folder)]
        log = stack.enter_context((folder.parent / f"{folder.name}.log").open("ab"))
        dev = _pipes(command, log)
        stack.callback(_end, dev)
        said = json.loads(_line(dev))
        files = [Path(each["settings_file"]) for each in said["gateways"]]
        for number in range(1, len(files) + 1):
            _say(dev, f"stop {number}")
        _wait_until_stopped(dev)
        _take_over(Path(said["environment"]))
        texts = _read(files[0])
        cluster = Cluster(texts["object.store"], texts["metadata.log"], [])
        for node_id in range(1, 3 * in_zone + 1):
            zone = ZONES[(node_id - 1) % 3]
            gateway = _gateway(stack, node_id, zone, folder, {**texts, **more})
            cluster.gateways.append(gateway)
        for each in cluster.gateways:
            stack.callback(each.stop)
            each.start()
        yield cluster


def _end(dev: subprocess.Popen[bytes]) -> None:
    dev.terminate()
    try:
        dev.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        dev.kill()
        dev.communicate()


def _wait_until_stopped(dev: subprocess.Popen[bytes]) -> None:
    while True:
        _say(dev, "status")
        if all(each["state"] == "stopped" for each in json.loads(_line(dev))["gateways"]):
            return


def _take_over(file: Path) -> None:
    """Set the environment variables that a shell has after it reads this file."""
    shown = subprocess.run(
        ["sh", "-c", f". {file}; env -0"], check=True, capture_output=True
    ).stdout.decode()
    found = dict(each.split("=", 1) for each in shown.split("\0") if each)
    os.environ.update(found)
    for name in os.environ.keys() - found.keys():
        del os.environ[name]


def _read(file: Path) -> dict[str, str]:
    pairs = (each.split("=", 1) for each in file.read_text().splitlines() if each)
    return {name: text.replace("\\\\", "\\") for name, text in pairs}


def _gateway(
    stack: ExitStack, node_id: int, zone: str, data: Path, texts: dict[str, str]
) -> ZoneGateway:
    folder = data / f"gateway-{node_id}"
    folder.mkdir(exist_ok=True)
    ports = free_ports(3)
    counting = Relay.start("counting.py", urlsplit(_endpoint(texts)).netloc)
    stack.callback(counting.stop)
    proxying = Relay.start("proxying.py", f"127.0.0.1:{ports[2]}", PROXIED_ADDRESS)
    stack.callback(proxying.stop)
    named = dict(zip(("PLAINTEXT", LISTENER, PROXIED), ports, strict=True))
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in named.items()]
    advertised = [*listeners[:2], f"{PROXIED}://127.0.0.1:{proxying.port}"]
    own = {
        "node.id": str(node_id),
        "broker.rack": zone,
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(advertised),
        "peer.listener": "127.0.0.1:0",
        "admin.listener": "127.0.0.1:0",
        "disk.cache.dir": f"{folder}/cache",
        "object.store": _through(texts["object.store"], counting.port),
    }
    return ZoneGateway(node_id, zone, folder, {**texts, **SETTINGS, **own}, counting, proxying)


def _endpoint(texts: dict[str, str]) -> str:
    return parse_qs(urlsplit(texts["object.store"]).query)["endpoint"][0]


def _through(store: str, port: int) -> str:
    """Return the URL of a store behind a relay."""
    parts = urlsplit(store)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    query["endpoint"] = f"http://127.0.0.1:{port}"
    return urlunsplit(parts._replace(query=urlencode(query, safe=":/")))
