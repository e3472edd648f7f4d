"""A limit in bytes; callers wait in order of arrival.  It always admits one caller."""

from __future__ import annotations

from collections import deque

import trio


class ByteBudget:
    """used_bytes never exceeds max_bytes, unless one caller alone takes more than max_bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[trio.Event, int]] = deque()
        self.used_bytes = 0

    @property
    def is_waited_for(self) -> bool:
        """Whether a caller waits in take()."""
        return bool(self._waiting)

    def take_nowait(self, size_bytes: int) -> bool:
        """Take the bytes if they are free and no caller waits; return whether it took them."""
        if self._waiting or not self._admits(size_bytes):
            return False
        self.used_bytes += size_bytes
        return True

    async def take(self, size_bytes: int) -> None:
        """Take the bytes; wait for them in line."""
        if self.take_nowait(size_bytes):
            return
        turn = trio.Event()
        self._waiting.append((turn, size_bytes))
        try:
            await turn.wait()
        except trio.Cancelled:
            if turn.is_set():
                self.used_bytes -= size_bytes
            else:
                self._waiting.remove((turn, size_bytes))
            self._admit_waiting()
            raise

    def give(self, size_bytes: int) -> None:
        """Give bytes back."""
        self.used_bytes -= size_bytes
        self._admit_waiting()

    def _admits(self, size_bytes: int) -> bool:
        return not self.used_bytes or self.used_bytes + size_bytes <= self._max_bytes

    def _admit_waiting(self) -> None:
        while self._waiting and self._admits(self._waiting[0][1]):
            turn, size_bytes = self._waiting.popleft()
            self.used_bytes += size_bytes
            turn.set()
