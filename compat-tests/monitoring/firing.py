"""Alerts that fire for real: the rules with short times, and waits for their states."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.broker import LocalBroker
from harness.places import ROOT
from harness.process import POLL_SECONDS
from harness.prometheus import JOB, Prometheus

MONITORING: Final = ROOT / "deploy" / "monitoring"
PATIENCE_SECONDS: Final = 120.0
WINDOW: Final = "5s"
BOUNDS: Final = {
    "_lag_seconds) > 300": "_lag_seconds) > 2",
    "tidegate_objects - tidegate_segments) > 20000": "tidegate_objects - tidegate_segments) > 5",
    "_put_age_seconds > 60\n            and": "_put_age_seconds > 2\n            and",
}
"""The bounds of the rules, and the lower ones of a test."""
BALLAST: Final = "ballast"


class NoFileSystem(Exception):
    """A small file system cannot be mounted here; its message says why."""


def shortened(rules: str) -> str:
    """Return the rules with seconds instead of minutes, and with low bounds.

    Raises:
      ValueError: the rules do not have a bound.
    """
    for bound, low in BOUNDS.items():
        if bound not in rules:
            raise ValueError(f"the rules have no {bound}")
        rules = rules.replace(bound, low)
    rules = re.sub(r"\[\d+[mh]\]", f"[{WINDOW}]", rules)
    rules = re.sub(r"offset \d+m", f"offset {WINDOW}", rules)
    return re.sub(r"^( +for:) \d+m$", r"\1 1s", rules, flags=re.MULTILINE)


def short_rules() -> str:
    """Return the alerting rules of deploy/monitoring, with shorter times and lower bounds."""
    return shortened((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))


def admin_of(broker: LocalBroker) -> str:
    """Return the host:port of its pages."""
    return f"127.0.0.1:{broker.command[broker.command.index('--admin-port') + 1]}"


def becomes(is_so: Callable[[], bool], what: str = "it did not become so") -> None:
    """Poll until is_so() holds; fail if it does not hold in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_SECONDS)


def fires(server: Prometheus, *alerts: str) -> None:
    """Wait until all these alerts fire."""
    becomes(lambda: set(alerts) <= server.firing(), f"{alerts} do not all fire")


def clears(server: Prometheus, *alerts: str) -> None:
    """Wait until none of these alerts fires."""
    becomes(lambda: not set(alerts) & server.firing(), f"{alerts} do not all clear")


def is_up(server: Prometheus) -> bool:
    """Return whether all gateways answer scrapes."""
    return {each["value"][1] for each in server.query(f'up{{job="{JOB}"}}')} == {"1"}


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Generator[Path]:
    """Mount a small file system in memory at a folder that is made for it.

    Raises:
      NoFileSystem: this process may not mount.
    """
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=700", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoFileSystem(f"no small file system can be mounted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full(disk: Path) -> Generator[None]:
    """Fill a small file system, for the block."""
    ballast = disk / BALLAST
    with ballast.open("wb") as file:
        room = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
    try:
        yield
    finally:
        ballast.unlink()
