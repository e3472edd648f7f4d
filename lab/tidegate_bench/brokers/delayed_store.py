"""The delay proxy as a process between a gateway and its S3 store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, cast
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from ..errors import BenchError
from .worlds import Through


@contextmanager
def delayed(delay_ms: float, method: str) -> Generator[Through]:
    """Yield a function from a store's URL to a URL whose PUTs, or GETs, take delay_ms longer."""
    processes: list[subprocess.Popen[str]] = []

    def through(url: str) -> str:
        process, changed = _start(url, delay_ms, method)
        processes.append(process)
        return changed

    try:
        yield through
    finally:
        for process in processes:
            with process:
                process.kill()


def _start(url: str, delay_ms: float, method: str) -> tuple[subprocess.Popen[str], str]:
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    endpoint = urlsplit(query.get("endpoint", ""))
    if endpoint.scheme != "http" or endpoint.port is None:
        raise BenchError(
            f"{method}s can be delayed at an S3 store with ?endpoint=http://HOST:PORT only"
        )
    address = f"{endpoint.hostname}:{endpoint.port}"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tidegate_bench.brokers.delay_proxy",
            address,
            str(delay_ms),
            method,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    port = cast(IO[str], process.stdout).readline().strip()
    changed = urlencode(query | {"endpoint": f"http://127.0.0.1:{port}"}, safe=":/")
    return process, urlunsplit(parts._replace(query=changed))
