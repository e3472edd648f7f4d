"""Parts of tables and lists for a person."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

SHOWN: Final = 50
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


def listed(head: str, rows: Sequence[Sequence[str]], *, shows_all: bool = False) -> list[str]:
    """Return the head and the first rows as lines, or all rows; nothing without rows."""
    if not rows:
        return []
    lines = [head, *(f"  {each}" for each in aligned(rows if shows_all else rows[:SHOWN]))]
    if len(rows) > SHOWN and not shows_all:
        lines.append(f"  and {len(rows) - SHOWN} more; --json shows all")
    return lines


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 ACL`, `2 ACLs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def sized(count: float, units: Sequence[str], step: int) -> str:
    """Return a size in the largest of the units that fits; each is `step` times the one before."""
    power = 0
    while count >= step and power < len(units) - 1:
        count, power = count / step, power + 1
    return f"{count:.1f} {units[power]}" if power else f"{count:.0f} {units[0]}"


def printable(text: str) -> str:
    """Return a client's text with control characters escaped: they could control the terminal."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
