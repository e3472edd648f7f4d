"""Asks the person at the terminal before a command changes something for good."""

from __future__ import annotations

import sys


def confirmed(question: str) -> bool:
    """Ask the person at the terminal; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        print(f"{question} There is no terminal to answer at: give --yes.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
