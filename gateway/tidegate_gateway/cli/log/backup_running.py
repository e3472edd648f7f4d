"""Runs `tidegate log backup`, `restore`, `repair` and `move`: progress, output, the exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from tidegate_coordination.backup.recovery import NothingToRestore
from tidegate_runtime.log_lines import configure_logs

from ..output.telling import was_told

SAID_EVERY_SECONDS: Final = 2.0

Lines = list[str]


class Progress:
    """Prints the progress of long work on stderr, at most every SAID_EVERY_SECONDS."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._said_at = time.monotonic()

    def __call__(self, text: str) -> None:
        """Print the text, unless a line was printed less than SAID_EVERY_SECONDS ago."""
        now = time.monotonic()
        if not self._quiet and now - self._said_at >= SAID_EVERY_SECONDS:
            self._said_at = now
            print(f"... {text}", file=sys.stderr, flush=True)


def run_log_command(
    work: Callable[[Progress], Awaitable[tuple[int, Lines, dict[str, object]]]], *, as_json: bool
) -> int:
    """Do the work, print its result, and return the exit code.

    work: returns the exit code, lines for a person, values for a script.
    """
    configure_logs("error")
    try:
        code, lines, values = trio.run(work, Progress(quiet=as_json))
    except NothingToRestore as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if not was_told(error):
            raise
        return 1
    print(json.dumps(values) if as_json else "\n".join(lines))
    return code
