"""300 silent and 300 dripping strangers at each listener of a gateway, and how long others wait.

    compat-tests/run strangers [--seconds N] [--count N]      on a quiet machine

The gateway has listeners for clients with a login, for operators and for other gateways.  `tidegate
log serve` serves its log.  There is a round without TLS and one with it.  Each visit (visits.py) is
made first without strangers, and then beside them.  Meanwhile gateways start that reach the log
only through the first one.  All visits must be answered within a second.  No start may take a
second longer than the slowest start without strangers.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import trio
from harness.probe import answers
from harness.process import Process, free_ports, spawn
from runner.options import option
from runner.result import Result
from tls.certificates import Files, make_files

from .crowd import FRAME, HELLO, HTTP, crowding
from .visits import Visits

TOKEN: Final = "right-token"
PASSWORD: Final = "secret"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
ALONE_SECONDS: Final = 10.0
START_SECONDS: Final = 60.0
MOST_SECONDS: Final = 1.0
STARTS: Final = 3


@dataclass(frozen=True)
class Ports:
    """plain: the gateway's listener without strangers."""

    plain: int
    login: int
    admin: int
    peer: int
    log: int


@dataclass(frozen=True)
class Place:
    """Where the processes of a round run."""

    folder: Path
    files: Files
    has_tls: bool
    ports: Ports

    def url(self, port: int) -> str:
        return f"{'https' if self.has_tls else 'http'}://127.0.0.1:{port}"

    def log_url(self, base: str) -> str:
        query = f"?token-file={self.folder / 'token'}"
        return base + query + (f"&ca-file={self.files.ca}" if self.has_tls else "")

    def settings(self, node_id: int, log: str, ports: Ports) -> list[str]:
        ssl = "SSL" if self.has_tls else "PLAINTEXT"
        texts = {
            "node.id": str(node_id),
            "object.store": f"file:{self.folder / 'objects'}",
            "metadata.log": log,
            "listeners": f"PLAINTEXT://127.0.0.1:{ports.plain},LOGIN://127.0.0.1:{ports.login}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,LOGIN:SASL_{ssl}",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": (
                f'{MODULE} required user_alice="{PASSWORD}";'
            ),
            "ssl.keystore.location": str(self.files.server),
            "ssl.truststore.location": str(self.files.ca),
            "admin.listener": f"127.0.0.1:{ports.admin}",
            "admin.token": TOKEN,
            "admin.security.protocol": ssl,
            "peer.listener": f"127.0.0.1:{ports.peer}",
            "peer.token": TOKEN,
            "peer.security.protocol": ssl,
        }
        return [word for name, text in texts.items() for word in ("--set", f"{name}={text}")]


@dataclass(frozen=True)
class Options:
    """The options."""

    seconds: int = option(60, "of each round")
    count: int = option(300, "strangers of each kind")


def main(options: Options) -> Result:
    """Print a table of each round; the result is bad if a visit or a start took too long."""
    missed = 0
    for has_tls in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            files = make_files(Path(folder) / "tls")
            place = Place(Path(folder), files, has_tls, Ports(*free_ports(5)))
            (place.folder / "token").write_text(f"{TOKEN}\n")
            missed += _round(place, options.seconds, options.count)
    return Result(not missed)


def _round(place: Place, seconds: int, count: int) -> int:
    with _served_log(place), _gateway(place):
        alone, alone_starts = trio.run(_visit, place, ALONE_SECONDS)
        with crowding(_doors(place), count):
            beside, beside_starts = trio.run(_visit, place, float(seconds))
    missed = 0
    name = "TLS" if place.has_tls else "plain"
    for visit, waits in beside.waits.items():
        is_missed = max(waits) > MOST_SECONDS or bool(beside.failed[visit])
        missed += is_missed
        print(
            f"{name:5}  {visit:13} alone p50 {_ms(median(alone.waits[visit]))}"
            f" max {_ms(max(alone.waits[visit]))}   beside p50 {_ms(median(waits))}"
            f" max {_ms(max(waits))}  of {len(waits)}, failed {len(beside.failed[visit])}"
            f"{'  MISSED ' + str(beside.failed[visit][:2]) if is_missed else ''}",
            flush=True,
        )
    is_missed = max(beside_starts) > max(alone_starts) + MOST_SECONDS
    print(
        f"{name:5}  starting gateway that forwards: alone at most {max(alone_starts):.2f} s,"
        f" beside at most {max(beside_starts):.2f} s of {len(beside_starts)}"
        f"{'  MISSED' if is_missed else ''}",
        flush=True,
    )
    return missed + is_missed


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:6.1f} ms"


def _doors(place: Place) -> list[tuple[int, bytes]]:
    ports = place.ports
    words = {ports.login: FRAME, ports.admin: HTTP, ports.peer: HTTP, ports.log: HTTP}
    return [(port, HELLO if place.has_tls else text) for port, text in words.items()]


async def _visit(place: Place, seconds: float) -> tuple[Visits, list[float]]:
    ports = place.ports
    visits = Visits(
        place.url(ports.admin),
        place.url(ports.peer),
        place.url(ports.log),
        TOKEN,
        place.files.ca if place.has_tls else None,
        {
            **(place.files.librdkafka() if place.has_tls else {}),
            "bootstrap.servers": f"127.0.0.1:{ports.login}",
            "security.protocol": "SASL_SSL" if place.has_tls else "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "linger.ms": "0",
            "enable.metrics.push": "false",
        },
    )
    starts: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(visits.run, seconds)
        for number in range(STARTS):
            starts.append(await trio.to_thread.run_sync(_start, place, 2 + number))
    return visits, starts


def _start(place: Place, node_id: int) -> float:
    """Start a gateway that reads and writes the log through the first; return how long it took."""
    ports = Ports(*free_ports(5))
    log = place.log_url(f"forward:127.0.0.1:{place.ports.peer}")
    begun = time.monotonic()
    words = _serve(place, node_id, log, ports)
    with _running(place, f"gateway-{node_id}", words, lambda: answers("127.0.0.1", ports.plain)):
        return time.monotonic() - begun


@contextmanager
def _served_log(place: Place) -> Generator[None]:
    words = ["log", "serve", f"sqlite:{place.folder / 'log.db'}"]
    words += ["--listen", f"127.0.0.1:{place.ports.log}", "--token-file"]
    words += [str(place.folder / "token")]
    words += ["--keystore", str(place.files.server)] if place.has_tls else []
    with _running(place, "log", words, lambda: _is_open(place.ports.log)):
        yield


@contextmanager
def _gateway(place: Place) -> Generator[None]:
    log = place.log_url(place.url(place.ports.log) + "/")
    words = _serve(place, 1, log, place.ports)
    with _running(place, "gateway-1", words, lambda: answers("127.0.0.1", place.ports.plain)):
        yield


def _is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), MOST_SECONDS):
        return True
    return False


def _serve(place: Place, node_id: int, log: str, ports: Ports) -> list[str]:
    data = ["--data", str(place.folder / f"data-{node_id}")]
    return ["serve", *data, *place.settings(node_id, log, ports)]


@contextmanager
def _running(
    place: Place, name: str, words: list[str], is_ready: Callable[[], bool]
) -> Generator[Process]:
    with ExitStack() as stack:
        command = [sys.executable, "-m", "tidegate_gateway", *words]
        process = spawn(command, place.folder / f"{name}.log")
        stack.callback(process.stop)
        process.wait_until(is_ready, START_SECONDS)
        yield process
