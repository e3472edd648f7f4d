"""`tidegate`, as an operator runs it, for its answers as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

from harness.places import ROOT

COMMAND_SECONDS: Final = 300.0
LINK_SECONDS: Final = 120.0


def run_tidegate(*words: str, may_fail: bool = False, seconds: float = COMMAND_SECONDS) -> Any:
    """Run a command; return its JSON output, or {"reason": its error} if it prints none.

    Raises:
      RuntimeError: it failed, and may_fail is not set.
      TimeoutExpired: it has not ended in so many seconds.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tidegate_gateway", *words, "--json"],
        cwd=ROOT,
        capture_output=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode and not may_fail:
        raise RuntimeError(f"{words}: {done.stderr.decode()}{done.stdout.decode()}")
    if not done.stdout:
        return {"reason": done.stderr.decode().strip() or "no answer"}
    return json.loads(done.stdout)


def run_link(log: str, *words: str, may_fail: bool = False) -> Any:
    """Run `tidegate link` on a metadata log, for LINK_SECONDS at most; see run_tidegate()."""
    return run_tidegate("link", *words, "--log", log, may_fail=may_fail, seconds=LINK_SECONDS)
