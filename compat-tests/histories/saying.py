"""Prints the lines of a client program; see history.py."""

from __future__ import annotations

import sys
import threading
import time

_lock = threading.Lock()


def now_ms() -> int:
    """Return the time that lines carry."""
    return int(time.time() * 1000)


def say(kind: str, *words: object) -> None:
    """Print a line with the time."""
    line = " ".join(map(str, (kind, now_ms(), *words)))
    with _lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
