"""`tidegate dev --zones 3` as a process, and the gateways that it names."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import kill
from pathlib import Path
from typing import Final

from harness.places import ROOT

PATIENCE_SECONDS: Final = 120.0
ZONES: Final = 3


@dataclass(frozen=True, slots=True)
class Gateway:
    """One gateway; pid: of its process."""

    node_id: int
    zone: str
    servers: str
    pid: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The running gateways."""

    gateways: tuple[Gateway, ...]


@contextmanager
def running_cluster(folder: Path, *, is_real: bool) -> Generator[Cluster]:
    """Run three gateways at free ports, on files and SQLite.

    is_real: on PostgreSQL and SeaweedFS, where a stopped gateway does not block the others.
    """
    folder.chmod(0o755)  # PostgreSQL may have to run as another user
    command = [sys.executable, "-m", "tidegate_gateway", "dev", "--zones", str(ZONES), "--json"]
    command += ["--port", "0", "--admin-port", "0", "--data", str(folder / "data")]
    command += ["--real"] if is_real else []
    popen = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    gateways: tuple[Gateway, ...] = ()
    try:
        assert popen.stdout is not None
        ready, _, _ = select.select([popen.stdout], [], [], PATIENCE_SECONDS)
        said = json.loads(popen.stdout.readline() if ready else b"{}")
        gateways = tuple(
            Gateway(each["node_id"], each["zone"], each["bootstrap_servers"], each["pid"])
            for each in said["gateways"]
        )
        yield Cluster(gateways)
    finally:
        for each in gateways:
            with suppress(ProcessLookupError):
                kill(each.pid, signal.SIGCONT)  # a stopped process would not end
        popen.terminate()
        try:
            popen.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.communicate()
