"""The last lines that a JVM prints, to be shown if it does not start or has ended.

A local Spark's lines are shown only then.  Lines of a cluster's driver are also shown as they come,
since its own log settings decide what it prints.  A JVM blocks while its pipe is full, so a thread
reads the pipe.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Final

from tidegate_runtime.last_lines import LastLines

TOLD_LINES: Final = 20
_MAX_LINE_BYTES: Final = 1000
_MAX_BYTES: Final = TOLD_LINES * _MAX_LINE_BYTES
_END_SECONDS: Final = 2.0


class JavaOutput:
    """Standard output and error of one JVM; is_shown: also show each line on standard error."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._lines = LastLines(_MAX_BYTES)
        self._lock = Lock()
        self._thread: Thread | None = None

    @contextmanager
    def writable(self) -> Generator[int, None, None]:
        """Yield a descriptor for the JVM, which has a copy of it when the block ends."""
        read_end, write_end = os.pipe()
        self._thread = Thread(target=self._read, args=(read_end,), daemon=True)
        self._thread.start()
        try:
            yield write_end
        finally:
            os.close(write_end)

    def last_lines(self) -> list[str]:
        """Return the last lines of a JVM that has ended, the oldest first."""
        if self._thread is not None:
            self._thread.join(_END_SECONDS)
        with self._lock:
            return self._lines.texts()[-TOLD_LINES:]

    def _read(self, read_end: int) -> None:
        with open(read_end, "rb") as pipe:
            while line := pipe.readline(_MAX_LINE_BYTES):
                self._take(line.rstrip(b"\n"))

    def _take(self, line: bytes) -> None:
        with self._lock:
            self._lines.add(line)
        if self._is_shown:
            # ValueError: it is closed.
            with suppress(OSError, ValueError):
                print(line.decode(errors="replace"), file=sys.stderr)


def how_it_ended(java: subprocess.Popen[bytes]) -> str:
    """Return how a JVM ended that no longer answers."""
    try:
        code = java.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        return "it does not answer"
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
