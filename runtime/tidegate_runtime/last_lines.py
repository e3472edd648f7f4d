"""The newest log lines of a process, for people who look at it later.

These are the written lines, in the same order, as JSON; the oldest are dropped first.
"""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_BYTES: Final = 256 << 10
MAX_LINE_BYTES: Final = 16 << 10


class LastLines:
    """Keeps at most max_bytes of lines; a long line is cut."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0

    def add(self, line: bytes) -> None:
        """Take the newest line."""
        line = line[:MAX_LINE_BYTES]
        self._lines.append(line)
        self._bytes += len(line)
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._lines.popleft())

    def texts(self) -> list[str]:
        """Return all lines, the oldest first."""
        return [each.decode(errors="replace") for each in self._lines]
