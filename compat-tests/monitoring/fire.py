"""Runs each case of cases.py: alerts fire and clear in a real Prometheus over a real cluster.

compat-tests/run alerts [--only CASE]
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from harness.install import MissingTool
from runner.options import option
from runner.result import Result, say

from monitoring.cases import CASES
from monitoring.firing import NoFileSystem


@dataclass(frozen=True)
class Options:
    """The options."""

    only: tuple[str, ...] = option(tuple(CASES), "cases, by comma", choices=CASES)


def main(options: Options) -> Result:
    """Run it."""
    failed = 0
    for name in options.only:
        began = time.monotonic()
        try:
            CASES[name]()
        except (MissingTool, NoFileSystem) as error:
            say(f"{name} is skipped: {error}")
        except AssertionError as error:
            failed += 1
            say(f"{name} FAILED: {error}")
        else:
            say(f"{name}: fired and cleared in {time.monotonic() - began:.0f} s")
    return Result(not failed, f"{len(options.only)} cases, {failed} failed")
