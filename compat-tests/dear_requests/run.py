"""One request: how long it blocked the gateway's loop, its memory, and its effect on other clients.

    compat-tests/run dear-requests [NAME...]

A gateway at default settings, on local files, and clients without special rights.  The columns:

"stood" is the longest step of any task of the event loop.  It is CPU time of the loop's thread, so
that other work of the machine counts little.  "gc" is the longest run of Python's collector, which
is part of "stood".  "MiB" is the peak memory of the process above its memory before the request.
"others" is the 99th percentile of the time that another client waits for ApiVersions, before and
during the request.  It is wall time, so other work of the machine changes it.

The other client is another process.  The request is built before it is measured, so only its
sending counts.  The exit status is 1 if a request costs more than promised.
"""

from __future__ import annotations

import gc
import multiprocessing
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import trio
from runner.options import option
from runner.result import Result

from dear_requests.requests import DEAR, Dear, commit, create
from dear_requests.shapes import GROUP_PARTITIONS, WIDE, WIDE_PARTITIONS, frame, many
from dear_requests.steps import Steps, peak_kib, reset_peak_kib
from tidegate_gateway.app import run_gateway
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_protocol.apis import APIS, ApiKey

MOST_SECONDS = 0.050
_HEAD = (
    f"{'request':32} {'KiB':>8} {'answer':>9} {'s':>6} {'stood':>7} {'gc':>6} {'MiB':>7}"
    f" {'others p99':>13} ms"
)
MOST_MIB = 64
PATIENCE_SECONDS = 180.0


class Seen(NamedTuple):
    stood_seconds: float
    collection_seconds: float
    task: str
    memory_mib: float


def serve(pipe: Connection, folder: str, port: int) -> None:
    """Run a gateway; answer each message of the pipe with the figures since the last message."""
    steps = Steps()
    gc.callbacks.append(steps.on_collection)

    def tell() -> None:
        before = 0
        while True:
            pipe.recv()
            memory_mib = (peak_kib() - before) / 1024
            pipe.send(Seen(steps.longest, steps.longest_collection, steps.task, memory_mib))
            before = reset_peak_kib()
            steps.longest = steps.longest_collection = 0.0

    settings = BrokerSettings(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "admin.listener": "",
            "metadata.log": f"sqlite:{folder}/metadata.db",
            "object.store": f"file:{folder}/objects",
            "node.id": "1",
        }
    )

    def announce(running: object) -> None:
        pipe.send("ready")
        threading.Thread(target=tell, daemon=True).start()

    trio.run(run_gateway, settings, Path(folder), announce, instruments=[steps])


def ask_all_the_time(pipe: Connection, port: int) -> None:
    """Ask for ApiVersions all the time; answer each message of the pipe with a percentile.

    The answer is the 99th percentile, in seconds, of the waits since the last message.  This runs
    in another process than the code that builds the large requests, so that it need not wait for
    that code.
    """
    connected = connect(port)
    question = frame(ApiKey.API_VERSIONS, 0, False, b"")
    waited: list[float] = []
    while True:
        began = time.perf_counter()
        call(connected, question)
        waited.append(time.perf_counter() - began)
        if pipe.poll():
            pipe.recv()
            pipe.send(sorted(waited)[int(0.99 * len(waited))])
            waited = []
        time.sleep(0.002)


def told(pipe: Connection) -> Any:
    """Return the figures since the last call."""
    pipe.send(None)
    return _received(pipe)


def _received(pipe: Connection) -> Any:
    if not pipe.poll(PATIENCE_SECONDS):
        raise SystemExit(f"a process has said nothing for {PATIENCE_SECONDS:.0f} s")
    return pipe.recv()


def connect(port: int) -> socket.socket:
    connected = socket.create_connection(("127.0.0.1", port))
    connected.settimeout(PATIENCE_SECONDS)
    return connected


def call(connected: socket.socket, request: bytes) -> int:
    """Send a frame; return the size of the answer, -1 where the connection was closed instead."""
    try:
        connected.sendall(request)
        left = size = int.from_bytes(_exactly(connected, 4), "big")
        while left:
            left -= len(_some(connected, left))
    except OSError:
        return -1
    return size


def _exactly(connected: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += _some(connected, size - len(data))
    return data


def _some(connected: socket.socket, size: int) -> bytes:
    part = connected.recv(min(size, 1 << 20))
    if not part:
        raise OSError("closed")
    return part


def made(dear: Dear) -> bytes:
    flexible = dear.version >= APIS[dear.key].first_flexible_version
    return frame(dear.key, dear.version, flexible, dear.body())


def send(port: int, request: bytes) -> tuple[int, float]:
    """Return the size of the answer, and the seconds it took."""
    with connect(port) as connected:
        began = time.perf_counter()
        size = call(connected, request)
        return size, time.perf_counter() - began


def prepare(port: int) -> None:
    """Make the topics and offsets that the requests are about."""
    for dear in (
        Dear("", ApiKey.CREATE_TOPICS, 7, lambda: create([WIDE], WIDE_PARTITIONS)),
        Dear("", ApiKey.CREATE_TOPICS, 7, lambda: create(many(), 1)),
        *[
            Dear("", ApiKey.OFFSET_COMMIT, 8, partial(commit, 1000, at))
            for at in range(0, GROUP_PARTITIONS, 1000)
        ],
    ):
        if send(port, made(dear))[0] < 0:
            raise SystemExit("could not be prepared")


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def measure(port: int, pipe: Connection, dear: Dear, others: Connection) -> bool:
    """Send one request, print a line; return whether its cost is within the limits."""
    request = made(dear)
    told(others)
    time.sleep(1.0)
    before: float = told(others)
    told(pipe)
    answered, seconds = send(port, request)
    meanwhile: float = told(others)
    time.sleep(0.2)
    seen: Seen = told(pipe)
    is_good = seen.stood_seconds <= MOST_SECONDS and seen.memory_mib <= MOST_MIB
    answer = f"{answered / 1024:9.0f}" if answered >= 0 else "  refused"
    print(
        f"{dear.name:32} {len(request) / 1024:8.0f} {answer} {seconds:6.2f}"
        f" {seen.stood_seconds * 1000:7.1f} {seen.collection_seconds * 1000:6.1f}"
        f" {seen.memory_mib:7.1f}"
        f" {before * 1000:6.1f} {meanwhile * 1000:6.1f}"
        f"  {'' if is_good else f'<- {seen.task}'}",
        flush=True,
    )
    return is_good


@dataclass(frozen=True)
class Options:
    """The options."""

    names: tuple[str, ...] = option((), "beginnings of names; all by default", is_positional=True)


def main(options: Options) -> Result:
    """Run it."""
    wanted = tuple(options.names)
    chosen = [each for each in DEAR if not wanted or each.name.startswith(wanted)]
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    others, theirs_too = context.Pipe()
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        gateway = context.Process(target=serve, args=(theirs, folder, port), daemon=True)
        gateway.start()
        try:
            _received(pipe)
            prepare(port)
            asking = context.Process(target=ask_all_the_time, args=(theirs_too, port), daemon=True)
            asking.start()
            print(_HEAD)
            good = [measure(port, pipe, each, others) for each in chosen]
        finally:
            gateway.kill()
            gateway.join(30)
    return Result(all(good))
