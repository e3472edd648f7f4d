"""Lines that wait to be written, bounded in bytes.  Pure.

If a line does not fit, it and later lines are dropped until half of the queue is written, so the
remaining lines show how the trouble began.  One line in their place says how many were dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class LineQueue:
    """See the module's head.

    dropped: lines that did not fit, since the start.
    tell_dropped: returns the line that says how many lines were dropped.
    """

    def __init__(self, max_bytes: int, tell_dropped: Callable[[int], bytes]) -> None:
        self.dropped = 0
        self.tell_dropped = tell_dropped
        self._max_bytes = max_bytes
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._untold = 0

    def __len__(self) -> int:
        """Return how many pieces wait, with the line about dropped ones."""
        return len(self._waiting) + bool(self._untold)

    def add(self, lines: bytes) -> None:
        """Queue whole lines as one piece to write; drop them if they do not fit."""
        limit = self._max_bytes // 2 if self._untold else self._max_bytes
        if self._bytes + len(lines) > limit:
            count = max(lines.count(b"\n"), 1)
            self.dropped += count
            self._untold += count
            return
        if self._untold:
            self._tell()
        self._put(lines)

    def first(self) -> bytes | None:
        """Return the next line to write; None if none waits.  It stays until removed."""
        if not self._waiting and self._untold:
            self._tell()
        return self._waiting[0] if self._waiting else None

    def remove_first(self) -> None:
        """Remove the line that first() returned, once it is written."""
        self._bytes -= len(self._waiting.popleft())

    def _tell(self) -> None:
        untold, self._untold = self._untold, 0
        self._put(self.tell_dropped(untold))

    def _put(self, lines: bytes) -> None:
        self._waiting.append(lines)
        self._bytes += len(lines)
