"""A bound in bytes that is waited for, first come first served.  One request is always admitted."""

from __future__ import annotations

from collections import deque

import trio


class ByteBudget:
    """used_bytes never passes max_bytes, but for one taker that wants more than all of it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[trio.Event, int]] = deque()
        self.used_bytes = 0

    @property
    def is_waited_for(self) -> bool:
        """Tell whether a taker waits."""
        return bool(self._waiting)

    def take_nowait(self, size_bytes: int) -> bool:
        """Take the bytes if nobody waits and they are there."""
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
