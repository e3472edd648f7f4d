"""Writes the figures of a run to docs/benchmarks.json, and from there into the pages.

A run is refused before it begins if its figures could not be published: with other options than
those of the command, with changes that no commit has, or without git.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .checkout import ROOT
from .errors import BenchError
from .measure import header
from .measure.published import COMMAND, FILE, Run, to_json, with_cases
from .measure.table import Report
from .options import Options

_SCENARIO: Final = "published"
_OPTIONS: Final = Options(vs_kafka=True)


def origin(names: Sequence[str], options: Options) -> Run:
    """Return a run without figures: its day, commit and machine.

    Raises:
      BenchError: its figures could not be published.
    """
    if [*names] != [_SCENARIO] or options != _OPTIONS:
        raise BenchError(f"--publish goes with no other option: {COMMAND}")
    found = header.origin()
    if not found.commit:
        raise BenchError("--publish names the commit: it needs git and a clone")
    if header.code_is_changed():
        raise BenchError("--publish names the commit: commit or revert your changes first")
    return found


def publish(run: Run, reports: Sequence[Report], root: Path = ROOT) -> None:
    """Write the file and the pages.

    Raises:
      BenchError: a published figure is missing, the code is no longer that of the run's commit, or
        the pages cannot be written.
    """
    if header.code_is_changed(run.commit):
        raise BenchError("nothing is published: the code changed while it was measured")
    rows = [row for report in reports for row in report.rows]
    try:
        content = to_json([with_cases(run, rows)])
    except KeyError as error:
        raise BenchError(f"nothing is published: the run has no {error}") from error
    (root / FILE).write_bytes(content)
    command = [sys.executable, str(root / "gateway" / "generate_docs.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{FILE} is written, the pages are not:\n{done.stderr[-2000:]}")
