"""`tidegate link`, as an operator runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

from harness.places import ROOT

COMMAND_SECONDS: Final = 120.0


def run_link(log: str, *words: str, may_fail: bool = False) -> Any:
    """Run the command on a metadata log; return what it prints, or {"reason": its error}.

    Raises:
      RuntimeError: it failed, and may not.
      TimeoutExpired: it has not ended in COMMAND_SECONDS.
    """
    command = [sys.executable, "-m", "tidegate_gateway", "link", *words]
    done = subprocess.run(
        [*command, "--json", "--log", log],
        cwd=ROOT,
        capture_output=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    if done.returncode and not may_fail:
        raise RuntimeError(f"{words}: {done.stderr.decode()}{done.stdout.decode()}")
    if not done.stdout:
        return {"reason": done.stderr.decode().strip() or "no answer"}
    return json.loads(done.stdout)
