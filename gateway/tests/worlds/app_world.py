"""Gateways in memory and `tidegate` processes, for tests of their pages and commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Timer
from typing import IO, Any

import trio

from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.log.metadata_log import MetadataLog
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.admin.admin_pages import AdminPages
from tidegate_gateway.builder import GatewayBuilder
from tidegate_gateway.environment import Environment, Identity
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.work.pools import inline_pools
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import ObjectStore

from .forked_process import run_tidegate, start_tidegate

PATIENCE_SECONDS = 60.0


def unstarted_gateway(
    *, store: ObjectStore | None = None, log: MetadataLog | None = None
) -> GatewayBuilder:
    """Return a gateway's builder with the given parts, or with parts in memory."""
    endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    return GatewayBuilder(
        Identity(1, "key", "az1", endpoints, "0.0.1", "cluster-of-tests"),
        BrokerSettings({}),
        Environment(
            store=store or MemoryObjectStore(),
            log=log or MemoryLog(),
            rng=Random(1),
            wall_clock=lambda: 1_700_000_000.0,
            pools=inline_pools(),
        ),
    )


@asynccontextmanager
async def started_gateway() -> AsyncIterator[Gateway]:
    """Run a gateway of unstarted_gateway()."""
    async with trio.open_nursery() as nursery:
        yield await unstarted_gateway().start(nursery)
        nursery.cancel_scope.cancel()


def pages_of(gateway: Gateway) -> AdminPages:
    """Return the admin pages of a gateway that has started."""
    return AdminPages(gateway.identity, lambda: gateway, "0.0.1", gateway.settings)


def starting_pages() -> AdminPages:
    """Return the admin pages of a gateway that has not started."""
    return AdminPages(unstarted_gateway().identity, lambda: None, "0.0.1", BrokerSettings({}))


@dataclass
class Process:
    """A `tidegate` process that serves.  said: what it printed as JSON."""

    popen: subprocess.Popen[str]
    said: dict[str, Any]

    @property
    def servers(self) -> str:
        return str(self.said["bootstrap_servers"])

    def get(self, path: str) -> tuple[int, str]:
        """Get a page of the admin listener."""
        url = f"{self.said['admin_url']}{path}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and all of stderr."""
        self.popen.send_signal(number)
        _, errors = self.popen.communicate(timeout=PATIENCE_SECONDS)
        return self.popen.returncode, errors


@contextmanager
def deadline(popen: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill the process if the block does not end in time."""
    timer = Timer(PATIENCE_SECONDS, popen.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def tidegate(
    *arguments: str, cwd: Path, seconds: float = PATIENCE_SECONDS, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return run_tidegate(arguments, seconds=seconds, cwd=cwd, env=_environ(environ), text=True)


@contextmanager
def serving(*arguments: str, cwd: Path, **environ: str) -> Iterator[Process]:
    """Run `tidegate dev` or `serve` until the block ends."""
    with starting(*arguments, "--json", cwd=cwd, **environ) as popen:
        yield Process(popen, json.loads(first_line(popen, popen.stdout)))


@contextmanager
def serving_with(stderr: int, *arguments: str, cwd: Path) -> Iterator[Process]:
    """Run `tidegate` as serving() does, but with another standard error."""
    with _started(arguments, cwd, stderr, {}) as popen:
        yield Process(popen, json.loads(first_line(popen, popen.stdout)))


@contextmanager
def starting(*arguments: str, cwd: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """Run `tidegate` until the block ends; do not wait until it serves."""
    with _started(arguments, cwd, subprocess.PIPE, environ) as popen:
        yield popen


@contextmanager
def _started(
    arguments: tuple[str, ...], cwd: Path, stderr: int, environ: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    popen = start_tidegate(
        arguments,
        cwd=cwd,
        env=_environ(environ),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    try:
        yield popen
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.communicate()


def first_line(popen: subprocess.Popen[str], stream: IO[str] | None) -> str:
    """Return the first line of one of the process's streams; fail if the stream ends first."""
    assert stream is not None
    with deadline(popen):
        line = stream.readline()
    if not line:
        popen.kill()
        raise AssertionError(f"it did not start: {popen.communicate()[1]}")
    return line


def _environ(extra: dict[str, str]) -> dict[str, str]:
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("TIDEGATE_", "KAFKA_"))
    }
    return kept | extra
