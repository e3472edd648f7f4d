"""The CPU time of processes, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the seconds of CPU that a process has used, with those of its children."""
    used = _used()
    return sum(used[each][1] for each in {pid, *_below(pid, used)} if each in used)


def _used() -> dict[int, tuple[int, float]]:
    """Return by process its parent and its CPU seconds, with those of its ended children."""
    found: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            found[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    return found


def _below(pid: int, used: Mapping[int, tuple[int, float]]) -> set[int]:
    below: set[int] = set()
    while more := {each for each, (parent, _) in used.items() if parent in {pid, *below}} - below:
        below |= more
    return below


class Share:
    """The share of a core that each process used; set at the end of the block of shares()."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu: dict[str, float] = {}

    def percent(self, name: str) -> float:
        """Return the share of a process, in percent of a core."""
        return round(100 * self.cpu[name] / self.seconds, 1)


@contextmanager
def shares(pids: Mapping[str, int]) -> Generator[Share]:
    """Measure the CPU of processes during the block."""
    share, begun = Share(), time.monotonic()
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    yield share
    share.seconds = time.monotonic() - begun
    share.cpu = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
