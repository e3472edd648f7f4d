"""The bytes of small writes in the metadata log above its newest snapshot.  Pure.

A gateway that starts reads all entries above the snapshot.  So a snapshot is due after a number of
entries, or of such bytes.
"""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_INLINED_BYTES: Final = 128 << 20


class LogGrowth:
    """See the module's head.  Bytes are counted since this gateway's start."""

    def __init__(self) -> None:
        self._looks = deque([(0, 0)])  # positions, and the bytes of all entries up to there

    def note(self, position: int, inlined_bytes: int) -> None:
        """Note the bytes of all entries up to a position."""
        if inlined_bytes > self._looks[-1][1]:
            self._looks.append((position, inlined_bytes))

    def is_due(self, snapshot_position: int) -> bool:
        """Return whether there are so many bytes above a snapshot that a new one is due."""
        while len(self._looks) > 1 and self._looks[1][0] <= snapshot_position:
            self._looks.popleft()
        return self._looks[-1][1] - self._looks[0][1] >= MAX_INLINED_BYTES
