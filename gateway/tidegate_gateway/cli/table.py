"""The mark of a finding in a list: a word, so that people can search for it."""

from __future__ import annotations

import os
import sys

_GREEN, _RED, _END = "\033[32m", "\033[31m", "\033[0m"


def mark(ok: bool) -> str:
    """Return ok or PROBLEM, padded to the same width; coloured on a terminal."""
    text = f"{'ok' if ok else 'PROBLEM':<7}"
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"{_GREEN if ok else _RED}{text}{_END}"
