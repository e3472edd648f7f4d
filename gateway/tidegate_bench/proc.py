"""What Linux tells of a process in /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _PPID = 11, 12, 1  # in what follows the name, which may hold blanks


def cpu_seconds(pid: int) -> float:
    """Return user and system time of all its threads, also of those that ended."""
    fields = _stat(pid)
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_SECOND


def rss_bytes(pid: int) -> int:
    """Return what it holds in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0  # it is ending


def children(pid: int) -> set[int]:
    """Return the processes that it started and that are still there."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int(_stat(int(entry.name))[_PPID]) == pid:
                    found.add(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
