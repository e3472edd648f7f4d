"""How many bytes of its disk the cache may use now.  Pure.

A full disk may stop other programs that hold the only copy of their bytes.  So the cache shrinks by
a tenth each time that the disk is full, and grows back later.  Files that cannot be removed count.
"""

from __future__ import annotations

import math

from .cache_files import parse_path

# How long after the disk was last full the cache gets its configured bound back.
GIVE_WAY_SECONDS = 600.0
# How long after a failure the cache tries again to remove a file.
RETRY_SECONDS = 60.0


class DiskRoom:
    """See the module's head.  now: the time in seconds, by a clock that never goes back."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lowered_bytes = max_bytes
        self._lowered_until = -math.inf
        self._stuck: dict[str, int] = {}
        self._retry_at = math.inf

    def max_bytes(self, now: float) -> int:
        """Return the bound of the cache's files, less the files that cannot be removed."""
        most = self._lowered_bytes if now < self._lowered_until else self._max_bytes
        return max(most - self.stuck_bytes, 0)

    @property
    def stuck_bytes(self) -> int:
        """Return the bytes of the files that cannot be removed."""
        return sum(self._stuck.values())

    def give_way(self, used_bytes: int, now: float) -> None:
        """Shrink by a tenth, since the disk is full while the cache uses used_bytes."""
        self._lowered_bytes = (used_bytes + self.stuck_bytes) * 9 // 10
        self._lowered_until = now + GIVE_WAY_SECONDS

    def add_stuck(self, paths: list[str], now: float) -> None:
        """Count files that could not be removed."""
        for path in paths:
            name = parse_path(path)
            self._stuck[path] = name.disk_bytes if name is not None else 0
        if paths:
            self._retry_at = now + RETRY_SECONDS

    def replaced(self, path: str) -> None:
        """Stop counting a file that could not be removed: a new file has replaced it."""
        self._stuck.pop(path, None)

    def take_stuck(self, now: float) -> list[str]:
        """Return the files whose removal is due for another try; they are no longer counted."""
        if now < self._retry_at:
            return []
        paths = list(self._stuck)
        self._stuck.clear()
        self._retry_at = math.inf
        return paths
