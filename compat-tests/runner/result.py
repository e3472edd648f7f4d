"""The result of a program, for the command that started it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any


class WrongOption(Exception):
    """Options that do not go together: say so, as of any wrong command line."""


@dataclass(frozen=True, slots=True)
class Result:
    """A program's verdict; a text for people, unless it is said already; figures for --json."""

    is_good: bool
    text: str = ""
    figures: Any = None


def say(line: str) -> None:
    """Print a line of progress, apart from the result."""
    print(line, file=sys.stderr, flush=True)
