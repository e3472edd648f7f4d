"""The machine and the commit of a run: figures mean nothing without them."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tidegate_gateway.tools.interpreter import is_optimised

from ..checkout import ROOT
from ..options import Options
from .published import Run

# Arguments of git that exclude pages, because no figure depends on them.
_NO_PAGES: Final = (":!*.md", ":!docs")


def header(options: Options) -> dict[str, object]:
    """Return the machine, the commit and the options that matter."""
    return {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "tidegate": version("tidegate"),
        "confluent-kafka": version("confluent-kafka"),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} x {_cpu_model()}, {_memory_gb()} GB, {platform.release()}",
        "load before": os.getloadavg()[0],
        "broker": options.bootstrap or "a gateway of its own",
        "store": options.store,
        "log": options.log or "as the store",
        "settings": dict(options.settings),
    }


def origin() -> Run:
    """Return a run without cases: its day, commit and machine; the commit is "" without git."""
    build = "an optimised build" if is_optimised() else "built without profile-guided optimisation"
    return Run(
        date=datetime.now(UTC).date().isoformat(),
        commit=_git("log", "-1", "--format=%H"),
        machine=f"{os.cpu_count()} cores ({_cpu_model()}), {_memory_gb()} GB, {platform.system()}",
        python=f"{platform.python_version()}, {build}",
    )


def code_is_changed(since: str = "HEAD") -> bool:
    """Return whether files other than pages differ from a commit."""
    return bool(_git("diff", "--name-only", since, "--", ".", *_NO_PAGES))


def _commit() -> str:
    commit = _git("log", "-1", "--format=%h of %cs")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return f"{commit or 'unknown'}{', with changes' if changed else ''}"


def _git(*words: str) -> str:
    command = ["git", *words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
