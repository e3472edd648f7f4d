"""The result of a program, for the command that started it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


class WrongOption(Exception):
    """Options that do not go together.  The command line prints it like any wrong option."""


@dataclass(frozen=True, slots=True)
class Result:
    """A program's verdict.  text: for people, "" if already printed.  figures: for --json."""

    is_good: bool
    text: str = ""
    figures: Any = None


def say(line: str) -> None:
    """Print a line of progress, apart from the result."""
    print(line, file=sys.stderr, flush=True)
