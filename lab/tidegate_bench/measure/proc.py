"""The facts about a process in Linux's /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# The fields after the name, which may hold blanks.
_UTIME, _STIME, _CUTIME, _CSTIME, _PPID = 11, 12, 13, 14, 1


def cpu_seconds(pid: int) -> float:
    """Return user and system time of all its threads, including ended ones."""
    fields = _stat(pid)
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_SECOND


def cpu_seconds_and_ended(pid: int) -> float:
    """Return the same, including its ended children that it has waited for."""
    fields = _stat(pid)
    ticks = sum(int(fields[each]) for each in (_UTIME, _STIME, _CUTIME, _CSTIME))
    return ticks / _TICKS_PER_SECOND


def rss_bytes(pid: int) -> int:
    """Return its resident memory now."""
    return _status_bytes(pid, "VmRSS:")


def peak_rss_bytes(pid: int) -> int:
    """Return its peak memory since its start, or since forget_peak()."""
    return _status_bytes(pid, "VmHWM:")


def forget_peak(pid: int) -> None:
    """Reset the peak of peak_rss_bytes()."""
    _ = Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0  # it is ending


def command_name(pid: int) -> str:
    """Return the name of its program, as far as Linux keeps it."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def descendants(pid: int) -> set[int]:
    """Return its children and their descendants."""
    found: set[int] = set()
    for child in children(pid):
        found |= {child} | descendants(child)
    return found


def children(pid: int) -> set[int]:
    """Return its live children."""
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
