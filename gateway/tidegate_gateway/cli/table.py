"""Parts of tables and lists for a person."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_GREEN, _RED, _END = "\033[32m", "\033[31m", "\033[0m"


def mark(ok: bool) -> str:
    """Return ok or PROBLEM, padded to the same width; coloured on a terminal.

    It is a word, so that people can search for it.
    """
    text = f"{'ok' if ok else 'PROBLEM':<7}"
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"{_GREEN if ok else _RED}{text}{_END}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with the cells of each column below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def printable(text: str) -> str:
    """Return a client's text with control characters escaped: they could control the terminal."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
